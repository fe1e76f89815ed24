// Every call of a pull, an import and a collection that changes a file fails once; and a store whose file system has no
// locks.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/pull/transfer/stored.hh"
#include "runtime/pull/transfer/verify.hh"
#include "runtime/store/collect.hh"
#include "tests/fixtures/failing_calls.hh"
#include "tests/fixtures/store_scene.hh"

namespace fs = std::filesystem;
using namespace berth;
using fixtures::Call;
using fixtures::Scene;

namespace {

constexpr int numbers[] = {EIO, ENOSPC, EDQUOT};

/// A program of which one call fails, and what came of it.
struct Attempt {
    bool reached = false;  ///< there were as many calls
    int code = 0, number = 0;
    Call call;
    std::vector<std::string> errors;  ///< lines it has written that are no progress
};

/// The lines that are errors; those about what goes on are known by their words.
std::vector<std::string> errors_in(const std::string& output) {
    std::vector<std::string> out;
    for (const std::string& line : split(output, '\n'))
        if (line.starts_with("berth")) out.push_back(line);
    return out;
}

/// Runs a program with its call number `position` on files below `folder` failing.
Attempt attempt(const Scene& scene, const std::string& program, const std::vector<std::string>& arguments,
                const std::string& folder, size_t position) {
    Attempt out;
    fs::remove(scene.log);
    size_t calls = 0;
    out.number = numbers[position % std::size(numbers)];
    out.code = fixtures::run_failing(program, arguments, scene.log, fixtures::changing_calls, [&](const Call& call) {
        if (!call.path.starts_with(folder) || calls++ != position) return 0;
        out.reached = true;
        out.call = call;
        return out.number;
    });
    out.errors = errors_in(sys::read_file(scene.log, 1 << 20));
    return out;
}

/// A failure is one line with the reason and an object; what was made no failure of is nothing that matters.
void check_told(const Attempt& attempt, const std::string& object) {
    INFO("failed: " << attempt.call.name << " of " << attempt.call.path << " by " << reason(attempt.number));
    std::string all;
    for (const std::string& line : attempt.errors) all += line + "\n";
    INFO(all);
    if (attempt.code == 0) return;
    CHECK(attempt.code == exit_failure);
    REQUIRE(attempt.errors.size() == 1);
    CHECK(attempt.errors[0].find(reason(attempt.number)) != std::string::npos);
    bool named =
        attempt.errors[0].find(object) != std::string::npos || attempt.errors[0].find("sha256:") != std::string::npos;
    CHECK(named);
}

/// The first image is there and whole, nothing is damaged, and nothing lies in tmp/.
void check_store(const Scene& scene) {
    store::Store store = store::Store::open(scene.store);
    CHECK(pull::is_complete(store, Digest(scene.digests[0])));
    pull::Meter meter("");
    pull::Verified verified = pull::verify(store, meter);
    CHECK(verified.problems.empty());
}

/// The names of the calls that have failed.
using Seen = std::set<std::string>;

/// A test that watches for calls which nobody makes any more tests nothing.
void check_seen(const Seen& seen, const std::vector<std::string>& expected) {
    for (const std::string& call : expected) {
        INFO(call);
        CHECK(seen.count(call) == 1);
    }
}

}  // namespace

TEST_CASE("hostile row 44: every write, sync and rename of a pull fails once, and the next pull puts it right",
          "[pull][hostile]") {
    Scene scene(2);
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    Seen seen;
    for (size_t position = 0;; ++position) {
        Attempt pull =
            attempt(scene, scene.pull_program, {"--store", scene.store, scene.image(1)}, scene.store, position);
        if (!pull.reached) break;
        seen.insert(pull.call.name);
        check_told(pull, scene.store);
        store::Store store = store::Store::open(scene.store);
        CHECK((pull.code != 0 || pull::is_complete(store, Digest(scene.digests[1]))));
        check_store(scene);
        REQUIRE(fixtures::wait_for(scene.start_pull(1)) == 0);
        CHECK(pull::is_complete(store, Digest(scene.digests[1])));
        CHECK(scene.objects("tmp") == 0);
        store::remove_image(store, Digest(scene.digests[1]));
    }
    check_seen(seen, {"pwrite64", "write", "fsync", "ftruncate", "fchmod", "linkat", "renameat", "mkdirat", "openat",
                      "openat2"});
}

TEST_CASE("hostile row 44: every change that a collection makes fails once, and the next collection ends its work",
          "[pull][hostile]") {
    Scene scene(2);
    ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
    Seen seen;
    for (size_t position = 0;; ++position) {
        for (unsigned image : {0U, 1U}) REQUIRE(fixtures::wait_for(scene.start_pull(image)) == 0);
        scene.make_old();
        Attempt collection = attempt(scene, scene.berth, {"gc", "--age", "1"}, scene.store, position);
        if (!collection.reached) break;
        seen.insert(collection.call.name);
        check_told(collection, scene.store);
        pull::Meter meter("");
        CHECK(pull::verify(store::Store::open(scene.store), meter).problems.empty());
        CHECK(fixtures::wait_for(scene.start_berth({"gc", "--age", "1"})) == 0);
        for (const char* folder : {"images", "layers", "tmp"}) CHECK(scene.objects(folder) == 0);
    }
    ::unsetenv("BERTH_STORE_PATH");
    check_seen(seen, {"renameat", "unlinkat", "openat2"});
}

TEST_CASE("hostile row 44: every write of an import fails once, and no file appears", "[pull][hostile]") {
    Scene scene(1);
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
    std::string out = scene.folder / "out", file = out + "/x.sqsh";
    fs::create_directory(out);
    Seen seen;
    for (size_t position = 0;; ++position) {
        Attempt import = attempt(scene, scene.berth, {"import", "-o", file, scene.image(0)}, out, position);
        if (!import.reached) break;
        seen.insert(import.call.name);
        CHECK(import.code != 0);
        check_told(import, file);
        // With the folder's last sync nothing is known any more, but that the file is whole.
        CHECK((fs::is_empty(out) || (import.call.name == "fsync" && import.call.path == out)));
        fs::remove(file);
        check_store(scene);
    }
    ::unsetenv("BERTH_STORE_PATH");
    CHECK(fs::file_size(file) > 400'000);
    check_seen(seen, {"openat", "pwrite64", "fsync", "linkat"});
}

// NFS without its lock service says ENOLCK, FUSE file systems and old kernels ENOSYS and EOPNOTSUPP.
TEST_CASE("hostile row 49: a store without locks is correct, with twice the work at most", "[pull][hostile]") {
    for (int number : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
        INFO(reason(number));
        Scene scene(2);
        ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
        auto unlocked = [&](const std::string& program, const std::vector<std::string>& arguments) {
            return fixtures::run_failing(program, arguments, scene.log, fixtures::locking_calls,
                                         [&](const Call&) { return number; });
        };
        std::vector<int> codes(4, -1);
        std::vector<std::thread> pulls;
        for (unsigned i = 0; i < codes.size(); ++i)
            pulls.emplace_back([&, i] {
                codes[i] = unlocked(scene.pull_program, {"--store", scene.store, scene.image(i % 2)});
            });
        for (std::thread& pull : pulls) pull.join();
        CHECK(codes == std::vector<int>(4, 0));
        CHECK(pull::is_complete(store::Store::open(scene.store), Digest(scene.digests[1])));
        check_store(scene);
        CHECK(scene.objects("tmp") == 0);
        // What a pull on another host may rely on stays for as long as a pull can last.
        CHECK(unlocked(scene.berth, {"gc", "--age", "1"}) == 0);
        CHECK(scene.objects("layers") == 3);
        CHECK(unlocked(scene.berth, {"rmi", scene.image(1)}) == 0);
        check_store(scene);
        ::unsetenv("BERTH_STORE_PATH");
    }
}
