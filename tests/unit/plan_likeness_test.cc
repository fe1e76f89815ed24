// Which plans make the same container.
#include "runtime/plan/likeness.hh"

#include <functional>

#include "tests/catch.hh"

using namespace berth::plan;

namespace {

Mount bind(const std::string& source, const std::string& target) {
    Mount out;
    out.source = source;
    out.target = target;
    return out;
}

Plan some_plan() {
    Plan out;
    out.identity = {1000, 1000, 100, 100};
    out.edits = {{bind("/home/ann", "/home/ann"), "option --mount-home", "the home"},
                 {Symlink{"/dev/fd", "/proc/self/fd"}, "system", "standard link"},
                 {AccountLine{"/etc/passwd", "ann:x:1000"}, "system", "the caller"},
                 {DropIn{"/a/b", "text"}, "system", "a file"},
                 {Directory{"/d"}, "system", "a directory"},
                 {Unmount{"/u"}, "system", "none"},
                 {LoaderLibraries{{{1, "liba.so", "/l/liba.so"}}, "", ""}, "hook", "libraries"}};
    out.workdir = "/home/ann/work";
    return out;
}

/// Whether a plan that `change` has changed is like the one before.
bool like(const std::function<void(Plan&)>& change) {
    Plan other = some_plan();
    change(other);
    return likeness(other) == likeness(some_plan());
}

template <typename Action>
Action& edit(Plan& plan, size_t position) {
    return std::get<Action>(plan.edits.at(position).action);
}

}  // namespace

TEST_CASE("plan: what a process has for itself does not make another container", "[plan]") {
    CHECK(like([](Plan&) {}));
    CHECK(like([](Plan& plan) { plan.command = {"other"}; }));
    CHECK(like([](Plan& plan) { plan.entrypoint = {"other"}; }));
    CHECK(like([](Plan& plan) { plan.environment.set = {"A=1"}; }));
    CHECK(like([](Plan& plan) { plan.edits[0].reason = "another"; }));
    // The home is mounted with all that is below it.
    CHECK(like([](Plan& plan) { plan.workdir = "/home/ann/elsewhere"; }));
    // One that is asked for has to be there.
    auto required = [](const char* folder) {
        Plan out = some_plan();
        out.workdir = folder;
        out.workdir_required = true;
        return likeness(out);
    };
    CHECK(required("/srv") == required("/opt"));
}

TEST_CASE("plan: whatever shapes a container makes another one", "[plan]") {
    std::vector<std::function<void(Plan&)>> changes{
        [](Plan& plan) { plan.identity.inside_uid = 0; },
        [](Plan& plan) { plan.writable = false; },
        [](Plan& plan) { plan.remap_root = true; },
        [](Plan& plan) { plan.nested = true; },
        [](Plan& plan) { plan.mount_home = true; },
        [](Plan& plan) { plan.mounts = {"/a:/b"}; },
        [](Plan& plan) { plan.unshare.ipc = true; },
        [](Plan& plan) { plan.unshare.pid = true; },
        [](Plan& plan) { plan.hostname = "x"; },
        [](Plan& plan) { plan.tmpfs_size = 1; },
        [](Plan& plan) { plan.capabilities = 1; },
        [](Plan& plan) { plan.granted = {"/dev/nvidia0"}; },
        [](Plan& plan) { plan.system_calls.confined = false; },
        [](Plan& plan) { plan.system_calls.allow = {"ptrace"}; },
        [](Plan& plan) { plan.edits.pop_back(); },
        [](Plan& plan) { plan.edits[0].origin = Origin::of_site("x"); },
        [](Plan& plan) { edit<Mount>(plan, 0).source = "/home/ben"; },
        [](Plan& plan) { edit<Mount>(plan, 0).read_only = true; },
        [](Plan& plan) { edit<Mount>(plan, 0).options = {{"mode", "0750"}}; },
        [](Plan& plan) { edit<Symlink>(plan, 1).replace = true; },
        [](Plan& plan) { edit<AccountLine>(plan, 2).line += ":"; },
        [](Plan& plan) { edit<DropIn>(plan, 3).content = "other"; },
        [](Plan& plan) { edit<Directory>(plan, 4).mode = 0700; },
        [](Plan& plan) { edit<LoaderLibraries>(plan, 6).libraries[0].path = "/m/liba.so"; },
        // The first process that wants to begin there has it made.
        [](Plan& plan) { plan.workdir = "/srv"; },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        INFO("change " << i);
        CHECK_FALSE(like(changes[i]));
    }
}

TEST_CASE("plan: the texts of two fields are not one", "[plan]") {
    CHECK_FALSE(like([](Plan& plan) {
        edit<Symlink>(plan, 1).path = "/dev/f";
        edit<Symlink>(plan, 1).target = "d/proc/self/fd";
    }));
    Plan one, other;
    one.mounts = {"a", "b"};
    other.mounts = {"a,1:b"};
    CHECK(likeness(one) != likeness(other));
}
