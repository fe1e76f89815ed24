#include <elf.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path = [] {
        char name[] = "/tmp/berth-command-XXXXXX";
        return fs::path(mkdtemp(name));
    }();
    ~Folder() { fs::remove_all(path); }

    std::string make(const std::string& name, const std::string& content, bool executable) const {
        std::ofstream(path / name) << content;
        fs::permissions(path / name, fs::perms::owner_all, executable ? fs::perm_options::add : fs::perm_options::add);
        if (!executable) fs::permissions(path / name, fs::perms::owner_read | fs::perms::owner_write);
        return path / name;
    }
};

int code_of(const std::string& name, const std::string& path, std::string& text) {
    try {
        find_command(name, path);
    } catch (const Error& error) {
        text = error.what();
        return error.exit_code();
    }
    return 0;
}

}  // namespace

TEST_CASE("command: found on PATH, skipping what cannot run", "[base]") {
    Folder folder, second;
    folder.make("tool", "#!/bin/sh\n", false);
    std::string good = second.make("tool", "#!/bin/sh\n", true);
    CHECK(find_command("tool", cat(folder.path.string(), ":", second.path.string())) == good);
    CHECK(find_command(good, "") == good);
}

TEST_CASE("command: in a step, one in the working directory is the last that is found", "[base]") {
    Folder folder, second;
    fs::path before = fs::current_path();
    fs::current_path(folder.path);
    folder.make("tool", "#!/bin/sh\n", true);
    CHECK(find_command_or_file("tool", "/nonexistent") == "./tool");
    CHECK_THROWS_AS(find_command("tool", "/nonexistent"), Error);
    std::string first = second.make("tool", "#!/bin/sh\n", true);
    CHECK(find_command_or_file("tool", second.path) == first);
    CHECK_THROWS_AS(find_command_or_file("none", second.path), Error);
    CHECK_THROWS_AS(find_command_or_file("", second.path), Error);
    fs::current_path(before);
}

TEST_CASE("hostile row 60: command: each reason has its own words and exit code", "[base]") {
    Folder folder;
    std::string path = folder.path, text;
    CHECK(code_of("nowhere", path, text) == 127);
    CHECK(text.find("command not found in the container (PATH=" + path) != std::string::npos);
    CHECK(code_of(path + "/nowhere", path, text) == 127);
    folder.make("plain", "x", false);
    CHECK(code_of("plain", path, text) == 126);
    CHECK(text.find("not executable") != std::string::npos);
    CHECK(code_of(path, path, text) == 126);
    CHECK(text.find("directory") != std::string::npos);
    folder.make("script", "#!/no/such/sh -e\n", true);
    CHECK(code_of("script", path, text) == 127);
    CHECK(text.find("/no/such/sh") != std::string::npos);
}

TEST_CASE("hostile row 60: command: a program of another architecture", "[base]") {
    Folder folder;
    Elf64_Ehdr header{};
    std::copy_n(ELFMAG, SELFMAG, header.e_ident);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = EM_S390;
    std::string text;
    folder.make("alien", std::string(reinterpret_cast<char*>(&header), sizeof header), true);
    CHECK(code_of("alien", folder.path, text) == 126);
    CHECK(text.find("s390x") != std::string::npos);
}

TEST_CASE("command: a relative path that is not in the container says what is not mounted", "[base]") {
    std::string text;
    CHECK(code_of("./none/train.sh", "/usr/bin", text) == exit_not_found);
    CHECK_THAT(text, Catch::Contains("./none/train.sh: No such file or directory in the container; the directory where "
                                     "srun was called is there only if it is mounted (--container-mounts=.:/job "));
    CHECK(code_of("/none/train.sh", "/usr/bin", text) == exit_not_found);
    CHECK(text == "running /none/train.sh: No such file or directory in the container");
    CHECK_THROWS_WITH(find_command("./none", "", "on this node"),
                      "running ./none: No such file or directory on this node");
}
