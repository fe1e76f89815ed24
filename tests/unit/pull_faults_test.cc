// What happens to a store when processes are killed and disks are full.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/pull/verify/verify.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/store_scene.hh"

namespace fs = std::filesystem;
using namespace berth;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using fixtures::Scene;

}  // namespace

TEST_CASE(
    "hostile row 45: 100 kills at any time during pull, publish, removal and collection leave a store that verifies",
    "[pull]") {
    Scene scene(3);
    ::setenv("BERTH_STORE_PATH", scene.store.c_str(), 1);
    auto start = Clock::now();
    REQUIRE(fixtures::wait_for(scene.start_pull(0)) == 0);
    auto whole = std::chrono::duration_cast<microseconds>(Clock::now() - start);
    std::mt19937 random(20261121);
    int killed = 0;
    for (int i = 0; i < 600 && killed < 100; ++i) {
        unsigned image = random() % 3;
        bool pulling = !store::Store::open(scene.store).has_image(Digest(scene.digests[image]));
        if (!pulling) scene.make_old();
        // A removal is over much sooner than a pull.
        microseconds timeout(random() %
                              static_cast<unsigned>(pulling ? whole.count() : std::max<long>(whole.count() / 6, 3000)));
        pid_t child = pulling             ? scene.start_pull(image)
                      : random() % 2 == 0 ? scene.start_berth({"gc", "--age", "1"})
                                          : scene.start_berth({"rmi", scene.image(image)});
        std::this_thread::sleep_for(timeout);
        fixtures::kill_one(child, SIGKILL);
        killed += fixtures::wait_for(child) == 128 + SIGKILL;
        pull::Meter meter("");
        pull::Verified verified = pull::verify(store::Store::open(scene.store), meter);
        INFO("round " << i << (verified.problems.empty() ? "" : ": " + verified.problems[0]));
        REQUIRE(verified.problems.empty());
        REQUIRE(scene.objects("tmp") == 0);
    }
    ::unsetenv("BERTH_STORE_PATH");
    CHECK(killed == 100);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(fixtures::wait_for(scene.start_pull(i)) == 0);
        CHECK(pull::is_complete(store::Store::open(scene.store), Digest(scene.digests[i])));
    }
    CHECK(scene.objects("layers") == 4);
}

TEST_CASE("hostile row 44: a disk that is full at any point of a pull is named, and what is there still starts",
          "[pull]") {
    if (::geteuid() != 0) {
        if (std::getenv("BERTH_MUST_RUN") != nullptr) FAIL("needs root for a small file system");
        WARN("not tested: needs root for a small file system");
        return;
    }
    Scene scene(2);
    fs::create_directory(scene.store);
    // Each round leaves a little more room for the second image.
    std::string script = cat("set -eu; store=", scene.store, " program=", scene.pull_program, " first=", scene.image(0),
                             " second=", scene.image(1), R"sh(
mount -t tmpfs -o size=2m,mode=700 store-test "$store"
"$program" --store "$store" "$first" > /dev/null 2>&1
layers=$(ls "$store/layers" | wc -l)
full=0 whole=0
for kilobytes in 0 4 8 12 16 20 24 40 80 120 160 196 200 204 208 212 216 220 224 228 232 236 240 244 248 252 256 300; do
  size=$(( $(stat -f -c %a "$store") * 4 - kilobytes ))
  # In the store's own tmp folder, under another host's name: anywhere else it would be found.
  head -c "${size}k" /dev/zero > "$store/tmp/other.1.1"
  if said=$("$program" --store "$store" "$second" 2>&1); then
    whole=$((whole + 1))
    rm "$store/tmp/other.1.1"
    break
  fi
  case $said in *"No space left on device"*) full=$((full + 1)) ;; *) echo "at $kilobytes KiB: $said"; exit 1 ;; esac
  "$program" --store "$store" "$first" > /dev/null
  "$program" --policy never --store "$store" "$first" > /dev/null
  rm "$store/tmp/other.1.1"
  "$program" verify --store "$store" > /dev/null
  [ "$(ls "$store/tmp" | wc -l)" = 0 ]
done
"$program" verify --store "$store"
echo "full $full whole $whole"
)sh");
    sys::write_all(scene.folder.create("script").get(), script, "script");
    auto result = fixtures::run_command(cat("unshare --mount --propagation private bash ", scene.folder / "script"));
    INFO(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Catch::Contains("whole 1"));
    CHECK_THAT(result.output, !Catch::Contains("full 0") && !Catch::Contains("full 1 "));
}
