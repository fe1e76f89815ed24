// An attacker that changes a mount target while it is being mounted on.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>

#include "runtime/base/error.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/rootfs/edits.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// Swaps two names for ever, in a process of its own.
class Swapper {
  public:
    Swapper(const std::string& one, const std::string& other) : swaps_(shared_counter()), pid_(fixtures::forked()) {
        if (pid_ != 0) return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
            swaps_->fetch_add(1, std::memory_order_relaxed);
        }
    }
    ~Swapper() {
        fixtures::kill_one(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        munmap(swaps_, sizeof *swaps_);
    }
    /// Until it has had the processor. On a busy machine it may not get it between two tries, and then both find the
    /// same of the two.
    void wait_for_a_swap() const {
        for (unsigned before = swaps_->load(); swaps_->load() == before;) sched_yield();
    }
    /// For as long as somebody has to rely on the names.
    void pause() const {
        fixtures::kill_one(pid_, SIGSTOP);
        waitpid(pid_, nullptr, WUNTRACED);
    }
    void go_on() const { fixtures::kill_one(pid_, SIGCONT); }
    Swapper(const Swapper&) = delete;
    Swapper& operator=(const Swapper&) = delete;

  private:
    using Counter = std::atomic<unsigned>;
    static Counter* shared_counter() {
        void* memory = mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw SysError("mapping memory for two processes");
        return new (memory) Counter(0);
    }

    Counter* swaps_;
    pid_t pid_;
};

/// The mount points of this mount namespace (proc(5), mountinfo: the fifth word of a line).
std::vector<std::string> mount_points() {
    std::vector<std::string> out;
    std::istringstream lines(sys::read_file("/proc/self/mountinfo", 1 << 20));
    // Older kernels keep mounts below /sys until they are attached (runtime/base/old_mounts.cc).
    for (std::string line; std::getline(lines, line);)
        if (std::string place = split(line, ' ').at(4); !place.starts_with("/sys/")) out.push_back(place);
    return out;
}

plan::Identity own_identity() {
    plan::Identity out;
    out.host_uid = out.inside_uid = test_uid();
    out.host_gid = out.inside_gid = test_gid();
    return out;
}

/// What the rounds came to.
struct Tally {
    unsigned inside = 0, refused = 0, outside = 0;
};

/// Mounts on `target` in the root, looks where that ended, and takes it away again.
void one_round(mount::Root& root, const std::string& root_path, const plan::Edit& edit, size_t mounts_before,
               const Swapper& swapper, Tally& tally) {
    plan::SourcePolicy policy;
    policy.everything = true;
    // A try that ends inside has to be seen, so that the others are known to have been tries.
    if (tally.inside == 0) swapper.wait_for_a_swap();
    try {
        mount::apply_edits(root, {edit}, mount::take_sources({edit}, policy));
    } catch (const Error&) {
        ++tally.refused;
        return;
    }
    swapper.pause();
    std::vector<std::string> points = mount_points();
    for (size_t i = mounts_before; i < points.size(); ++i) {
        points[i].starts_with(root_path + "/") ? ++tally.inside : ++tally.outside;
        if (umount2(points[i].c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
            throw SysError("taking " + points[i] + " away");
    }
    swapper.go_on();
}

}  // namespace

TEST_CASE("hostile row 53: ten thousand mounts on a target that changes between directory and symlink stay in the root",
          "[kernel][race]") {
    NEED_CONTAINERS();
    Folder host;
    for (const char* name : {"root", "root/place", "victim", "victim/place", "source"}) host.directory(name);
    REQUIRE(::symlink((host / "victim").c_str(), (host / "root/link").c_str()) == 0);
    // The parent of the mount point is what changes: a path that is looked up in steps would end in the victim's
    // directory.
    host.directory("root/parent");
    host.directory("root/parent/place");
    Outcome seen = as_user(
        [&] {
            Swapper swapper(host / "root/parent", host / "root/link");
            sandbox::enter_user_namespace(own_identity());
            sys::make_mounts_private();
            // A mount of its own, as the overlay is.
            Fd tree =
                sys::open_tree_clone(sys::open_file(host / "root", O_PATH | O_DIRECTORY).get(), false, "the root");
            sys::move_mount_to(tree.get(), sys::open_file(host / "root", O_PATH | O_DIRECTORY).get(), "the root");
            mount::Root root(std::move(tree));
            size_t before = mount_points().size();
            plan::Edit edit = bind_of(host / "source", "/parent/place");
            Tally tally;
            // Those mounts make the table longer and longer.
            unsigned rounds = sys::old::needed() ? 500 : 10'000;
            for (unsigned round = 0; round < rounds; ++round)
                one_round(root, host / "root", edit, before, swapper, tally);
            return cat(tally.inside > 0, " ", tally.outside, " ", tally.inside + tally.refused == rounds);
        },
        std::chrono::seconds(300));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "1 0 1");
    // Nothing was made on the node either.
    CHECK(::access((host / "victim/source").c_str(), F_OK) != 0);
}

namespace {

/// What is made at /parent, whose name leads to the root's directory or, by a symlink, to the victim's.
struct Kind {
    const char* word;
    plan::Edit edit;
};

std::vector<Kind> kinds_of_edits(const std::string& source_file) {
    auto edit = [](plan::Action action) { return plan::Edit{std::move(action), "option --container-mounts", "race"}; };
    plan::Mount memory;
    memory.kind = plan::Mount::Kind::tmpfs;
    memory.source = "tmpfs";
    memory.target = "/parent/place";
    plan::Edit device = bind_of("/dev/null", "/parent/device");
    std::get<plan::Mount>(device.action).device = true;
    return {{"file", bind_of(source_file, "/parent/file")},
            {"tmpfs", edit(memory)},
            {"device", device},
            {"symlink", edit(plan::Symlink{"/parent/made", "elsewhere", true})},
            {"directory", edit(plan::Directory{"/parent/made"})},
            {"account", edit(plan::AccountLine{"/parent/made", "x:x:7:7::/:/bin/sh"})},
            {"drop-in", edit(plan::DropIn{"/parent/made", "x"})}};
}

/// Does the edit, counts where what is mounted or made has ended, and takes it away again.
void one_edit(int tree, const Folder& host, const plan::Edit& edit, size_t mounts_before, const Swapper& swapper,
              Tally& tally) {
    // Anew each time: a root knows the directory again in which it made something last.
    mount::Root root(Fd(::fcntl(tree, F_DUPFD_CLOEXEC, 3)));
    unsigned before = tally.inside + tally.outside;
    one_round(root, host / "root", edit, mounts_before, swapper, tally);
    if (std::holds_alternative<plan::Mount>(edit.action)) return;
    swapper.pause();
    for (const char* name : {"root/parent/made", "root/link/made", "victim/made"}) {
        struct stat st {};
        std::string path = host / name;
        // By way of the name that leads to the victim it is seen there.
        bool led = ::lstat((host / name).substr(0, path.rfind('/')).c_str(), &st) == 0 && S_ISLNK(st.st_mode);
        if (led || ::remove(path.c_str()) != 0) continue;
        path.starts_with(host / "victim") ? ++tally.outside : ++tally.inside;
    }
    swapper.go_on();
    // What was there already counts for nobody, and what was made for one.
    if (tally.inside + tally.outside > before + 1) throw Error("an edit made two things");
}

/// `rounds` of one kind: "none outside" when some ended inside, as they must. An account line looks its file up several
/// times and is refused when the name led elsewhere between. With the swapper on a processor of its own one or two in a
/// hundred end inside, so that a hundred rounds can pass without one: then there are more, up to a hundred times as
/// many.
Outcome race(const Folder& host, const Kind& kind, unsigned rounds) {
    return as_user(
        [&] {
            Swapper swapper(host / "root/parent", host / "root/link");
            sandbox::enter_user_namespace(own_identity());
            sys::make_mounts_private();
            Fd tree =
                sys::open_tree_clone(sys::open_file(host / "root", O_PATH | O_DIRECTORY).get(), false, "the root");
            sys::move_mount_to(tree.get(), sys::open_file(host / "root", O_PATH | O_DIRECTORY).get(), "the root");
            size_t before = mount_points().size();
            Tally tally;
            for (unsigned round = 0; round < rounds || (tally.inside == 0 && round < 100 * rounds); ++round)
                one_edit(tree.get(), host, kind.edit, before, swapper, tally);
            return cat(tally.inside > 0 ? "some inside, " : "", tally.outside, " outside");
        },
        std::chrono::seconds(1800));
}

void race_all_kinds(unsigned rounds) {
    Folder host;
    for (const char* name : {"root", "root/parent", "root/parent/place", "victim", "victim/place"})
        host.directory(name);
    for (const char* name : {"source", "root/parent/file", "root/parent/device", "victim/file", "victim/device"})
        host.file(name, "x");
    REQUIRE(::symlink((host / "victim").c_str(), (host / "root/link").c_str()) == 0);
    for (const Kind& kind : kinds_of_edits(host / "source")) {
        CAPTURE(kind.word);
        Outcome seen = race(host, kind, rounds);
        CHECK(seen.error == "");
        CHECK_FALSE(seen.hung);
        CHECK(seen.text == "some inside, 0 outside");
    }
}

}  // namespace

TEST_CASE("race: edits of each kind below a name that changes between directory and symlink stay in the root",
          "[kernel][race]") {
    NEED_CONTAINERS();
    race_all_kinds(sys::old::needed() ? 100 : 1000);
}

TEST_CASE("race: a hundred thousand edits of each kind stay in the root", "[kernel][.][races]") {
    NEED_CONTAINERS();
    race_all_kinds(100'000);
}
