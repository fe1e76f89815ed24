// BERTH_LOG=debug: what each program of a start writes, and what it never writes.
#include "runtime/base/debug_log.hh"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// What a program of this build prints with a variable (NAME=VALUE) set besides the scene's, and "|CODE".
std::string with_variable(const NamedScene& scene, const std::string& name, const std::string& variable,
                          const std::vector<std::string>& arguments) {
    std::vector<std::string> words = scene.command("berth", arguments);
    auto program =
        std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.ends_with("/berth"); });
    // The front ends are names of the program.
    if (name != "berth") {
        std::string link = scene.folder / name;
        std::filesystem::remove(link);
        std::filesystem::create_symlink(*program, link);
        *program = link;
    }
    words.insert(program, variable);
    return as_user([&] {
               std::vector<std::string> all{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
               all.insert(all.end(), words.begin(), words.end());
               return output_of(all);
           })
        .text;
}

/// With BERTH_LOG=debug.
std::string logged(const NamedScene& scene, const std::vector<std::string>& arguments) {
    return with_variable(scene, "berth", "BERTH_LOG=debug", arguments);
}

const std::string line_of_image = "] image: ";

}  // namespace

TEST_CASE("BERTH_LOG=debug: berth run tells of its image, its plan, its parts and its file server", "[kernel][log]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string text = logged(scene, {"run", "-e", "SECRET=pl4nted", scene.image, "inside", "pl4nted"});
    CHECK_THAT(text, StartsWith("berth: debug 2") && Contains(line_of_image + scene.image) &&
                         Contains("] plan: uid ") && Contains("] plan: env PATH") &&
                         Contains("] start: namespaces took ") && Contains("] file server: layers 1, files ") &&
                         Contains("] start: overlay took ") && Contains("] devices: nvidia: edits "));
    // The command prints its word itself, once.
    size_t first = text.find("pl4nted");
    REQUIRE(first != text.npos);
    CHECK(text.substr(first - 7, 7) == "inside ");
    CHECK(text.find("pl4nted", first + 1) == text.npos);
    CHECK_THAT(scene.program("berth", {"run", scene.image, "inside"}), !Contains("debug"));
}

TEST_CASE("BERTH_LOG: another value than debug and off ends every command in one line", "[kernel][log]") {
    NamedScene scene;
    const std::string line = "BERTH_LOG=yes: write debug, or off";
    CHECK(with_variable(scene, "berth", "BERTH_LOG=yes", {"images"}) == cat("berth: ", line, "\n|125"));
    CHECK_THAT(with_variable(scene, "enroot", "BERTH_LOG=yes", {"list"}), EndsWith(cat(line, "\n|1")));
    CHECK_THAT(with_variable(scene, "apptainer", "BERTH_LOG=yes", {"exec", scene.image, "true"}),
               EndsWith(cat(line, "\n|255")));
    CHECK(with_variable(scene, "berth", "BERTH_LOG=off", {"version"}) ==
          with_variable(scene, "berth", "A=b", {"version"}));
}

TEST_CASE("a named container's helper writes into the log of who starts it, and keeps nothing of it open",
          "[kernel][log][named]") {
    NEED_CONTAINERS();
    NamedScene scene;
    // The container outlives the start; its output, a pipe, would not come to its end if the helper held it.
    Outcome seen = as_user([&] {
        UsedContainer used = [&] {
            auto&& [reading, writing] = sys::make_pipe();
            int error = ::dup(STDERR_FILENO);
            ::dup2(writing.get(), STDERR_FILENO);
            writing.reset();
            debug::start("berth");
            UsedContainer out = scene.use("c");
            debug::log("test", "started");
            debug::end();
            ::dup2(error, STDERR_FILENO);
            ::close(error);
            std::string text = sys::read_all(reading.get(), 1 << 20, "the log");
            if (text.find(" berth helper[") == text.npos || text.find("] start: overlay took ") == text.npos)
                throw Error(text);
            return out;
        }();
        return std::string("the pipe has ended");
    });
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "the pipe has ended");
}

TEST_CASE("--debug and APPTAINER_DEBUG of apptainer, and ENROOT_DEBUG of enroot, ask for the log", "[kernel][log]") {
    NEED_CONTAINERS();
    NamedScene scene;
    CHECK_THAT(with_variable(scene, "apptainer", "A=b", {"--debug", "exec", scene.image, "inside"}),
               Contains(" apptainer[") && Contains("] start: overlay took "));
    CHECK_THAT(with_variable(scene, "apptainer", "APPTAINER_DEBUG=1", {"exec", scene.image, "inside"}),
               Contains(" apptainer[") && Contains("] start: overlay took "));
    CHECK_THAT(with_variable(scene, "apptainer", "A=b", {"-v", "exec", scene.image, "inside"}), !Contains("debug 2"));
    CHECK_THAT(with_variable(scene, "enroot", "ENROOT_DEBUG=y", {"start", scene.image, "inside"}),
               Contains(" enroot[") && Contains("] start: overlay took "));
}
