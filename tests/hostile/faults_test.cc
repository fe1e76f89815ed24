// Every call of a pull, an import and a collection on their files fails with every errno that a disk, a network file
// system or a node that is short of memory and descriptors has for it; is interrupted; and does half of its work.
// And a store whose file system has no locks.
#include <sys/stat.h>

#include <algorithm>
#include <regex>
#include <set>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/verify/verify.hh"
#include "runtime/store/collect.hh"
#include "tests/catch.hh"
#include "tests/fixtures/failing_calls.hh"
#include "tests/fixtures/faults.hh"
#include "tests/fixtures/store_scene.hh"

namespace fs = std::filesystem;
using namespace berth;
using fixtures::Attempt;
using fixtures::Call;
using fixtures::Fault;
using fixtures::Scene;

namespace {

/// A failure is one line with the reason and an object. What takes something from the result must be one: it may end
/// well only at the places that `ignored` names. What passes is none.
void check_told(const Attempt& attempt, const std::string& object, const std::string& ignored) {
    INFO(attempt.text());
    if (attempt.fault.passes) {
        CHECK(attempt.code == 0);
        return;
    }
    if (attempt.code == 0) {
        CHECK(std::regex_match(attempt.site, std::regex(ignored)));
        return;
    }
    CHECK(attempt.code == exit_failure);
    REQUIRE(attempt.errors.size() == 1);
    CHECK(attempt.errors[0].find(reason(attempt.fault.number)) != std::string::npos);
    bool named =
        attempt.errors[0].find(object) != std::string::npos || attempt.errors[0].find("sha256:") != std::string::npos;
    // What was only to be read may be named as it is called in the store.
    bool only_read = attempt.site.find(" old ") != std::string::npos;
    CHECK((named || only_read));
}

/// The first image is there and whole, nothing is damaged, and nothing lies in tmp/.
void check_store(const Scene& scene) {
    store::Store store = store::Store::open(scene.store);
    CHECK(pull::is_complete(store, Digest(scene.digests[0])));
    pull::Meter meter("");
    pull::Verified verified = pull::verify(store, meter);
    CHECK(verified.problems.empty());
}

/// The names of the calls that have met something.
using Seen = std::set<std::string>;

/// A test that watches for calls which nobody makes any more tests nothing.
void check_seen(const Seen& seen, const std::vector<std::string>& expected) {
    for (const std::string& call : expected) {
        INFO(call);
        CHECK(seen.count(call) == 1);
    }
}

/// Has every call of `program` on files below `folder` meet every fault, `often` times at each place. `check` is called
/// after each run. The result are the names of the calls.
Seen meet_everything(const fixtures::WatchedProgram& program, const std::string& folder, size_t often,
                     const std::function<void()>& before, const std::function<void(const Attempt&)>& check) {
    Seen seen;
    for (const Fault& fault : fixtures::every_fault) {
        fixtures::Sweep sweep(fault, folder, often);
        for (;;) {
            if (before) before();
            test::turn();
            Attempt attempt = sweep.run(program);
            test::turn();
            if (!attempt.reached()) break;
            INFO(attempt.text());
            seen.insert(attempt.site.substr(0, attempt.site.find(' ')));
            check(attempt);
        }
    }
    return seen;
}

// What is not found to be whole in the store is fetched again, so that these opens decide nothing. The rest: a lock and
// a lease of which a full disk has none, who holds a lock, when a layer was used last, and what a kill left.
constexpr const char* ignored_by_pull =
    "openat2? old .*|openat2 new /(locks/pulls|leases/N)|(ftruncate|pwrite64 start of) /locks/N|"
    "utimensat /layers/N.sqfs|unlinkat /tmp/N.*";
// What a kill left, folders that are empty now, and images that cannot be looked at, which stay. Without an index it is
// not known what is kept unpacked of an image, which goes when it was not used for long.
constexpr const char* ignored_by_collection =
    "(openat2? old|unlinkat) /tmp(/N.*)?|openat2? old /images/N(/config.json|/index)?|openat2? old /locks/N|"
    "unlinkat /refs/[^:]*";

void sweep_pull(size_t often) {
    Scene scene(2);
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    // Its progress, which a slow machine shows, is no error.
    fixtures::WatchedProgram program{
        scene.pull_program, {"--quiet", "--store", scene.store, scene.image(1)}, scene.log};
    Seen seen = meet_everything(program, scene.store, often, {}, [&](const Attempt& pull) {
        check_told(pull, scene.store, ignored_by_pull);
        store::Store store = store::Store::open(scene.store);
        CHECK((pull.code != 0 || pull::is_complete(store, Digest(scene.digests[1]))));
        check_store(scene);
        REQUIRE(fixtures::wait_for(scene.start_pull(1)) == 0);
        CHECK(pull::is_complete(store, Digest(scene.digests[1])));
        CHECK(scene.objects("tmp") == 0);
        store::remove_image(store, Digest(scene.digests[1]));
    });
    check_seen(seen, {"pwrite64", "write", "fsync", "ftruncate", "fchmod", "linkat", "renameat", "mkdirat", "openat",
                      "openat2"});
}

void sweep_collection(size_t often) {
    Scene scene(2);
    ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
    auto before = [&] {
        for (unsigned image : {0U, 1U}) REQUIRE(fixtures::wait_for(scene.start_pull(image)) == 0);
        // The second one is used, so that a collection must leave it.
        scene.make_old(scene.digests[0]);
    };
    Seen seen = meet_everything({scene.berth, {"gc", "--age", "1"}, scene.log}, scene.store, often, before,
                                [&](const Attempt& collection) {
        check_told(collection, scene.store, ignored_by_collection);
        store::Store store = store::Store::open(scene.store);
        pull::Meter meter("");
        CHECK(pull::verify(store, meter).problems.empty());
        CHECK(pull::is_complete(store, Digest(scene.digests[1])));
        scene.make_old();
        CHECK(fixtures::wait_for(scene.start_berth({"gc", "--age", "1"})) == 0);
        for (const char* folder : {"images", "layers", "tmp"}) CHECK(scene.objects(folder) == 0);
    });
    ::unsetenv("BERTH_STORE_PATH");
    check_seen(seen, {"renameat", "unlinkat", "openat", "openat2"});
}

void sweep_import(size_t often) {
    Scene scene(1);
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
    std::string out = scene.folder / "out", file = out + "/x.sqsh";
    fs::create_directory(out);
    auto before = [&] { fs::remove(file); };
    Seen seen = meet_everything({scene.berth, {"import", "-o", file, scene.image(0)}, scene.log}, out, often, before,
                                [&](const Attempt& import) {
        // The folder cannot be opened, or the file in it.
        check_told(import, out, "");
        // With the folder's last sync nothing is known any more, but that the file is whole.
        CHECK(((import.code == 0) == fs::exists(file) || import.site == "fsync "));
        if (fs::exists(file)) CHECK(fs::file_size(file) > 400'000);
        fs::remove(file);
        CHECK(fs::is_empty(out));
        check_store(scene);
    });
    ::unsetenv("BERTH_STORE_PATH");
    CHECK(fs::file_size(file) > 400'000);
    check_seen(seen, {"openat", "pwrite64", "fsync", "linkat"});
}

constexpr size_t at_all_of_a_place = SIZE_MAX;

}  // namespace

TEST_CASE("hostile row 44: every write, sync and rename of a pull fails once, and the next pull puts it right",
          "[pull][hostile]") {
    sweep_pull(1);
}

TEST_CASE("hostile row 44: every change that a collection makes fails once, and the next collection ends its work",
          "[pull][hostile]") {
    sweep_collection(1);
}

TEST_CASE("hostile row 44: every write of an import fails once, and no file appears", "[pull][hostile]") {
    sweep_import(1);
}

// The same at every single call, and not once a place: minutes.
TEST_CASE("every call of a pull, a collection and an import meets everything", "[.][every-call]") {
    sweep_pull(at_all_of_a_place);
    sweep_collection(at_all_of_a_place);
    sweep_import(at_all_of_a_place);
}

// NFS without its lock service says ENOLCK, FUSE file systems and old kernels ENOSYS and EOPNOTSUPP.
TEST_CASE("hostile row 49: a store without locks is correct, with twice the work at most", "[pull][hostile]") {
    for (int number : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
        INFO(reason(number));
        Scene scene(2);
        ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
        auto unlocked = [&](const std::string& program, const std::vector<std::string>& arguments) {
            test::turn();
            int code = fixtures::run_failing(program, arguments, scene.log, fixtures::locking_calls,
                                             [&](const Call&) { return number; });
            test::turn();
            return code;
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
