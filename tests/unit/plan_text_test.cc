#include <catch2/catch.hpp>

#include "runtime/base/sys.hh"
#include "runtime/plan/plan_text.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("plan text: the whole plan, as checked in", "[plan]") {
    Caller caller;
    caller.uid = caller.gid = 2001;
    caller.user = caller.group = "alice";
    caller.home = "/home/alice";
    caller.shell = "/bin/bash";
    caller.cwd = "/home/alice";
    Request request;
    request.mounts = parse_mounts("./in:/data:ro,tmpfs:/scratch,umount:/etc/localtime");
    request.env = {"FOO"};
    request.writable = false;
    ImageConfig image;
    image.env = {"PATH=/usr/bin:/bin", "BAD=\x1b[31m"};
    image.entrypoint = {"/entry"};
    image.cmd = {"serve", "--all"};
    image.working_dir = "/srv";
    std::string text = plan_text(make_plan(request, caller, {}, {}, {host_paths()}, image));
    // Make it anew with BERTH_GOLDEN=write after looking at the difference.
    if (std::string golden = getenv("BERTH_GOLDEN") ? getenv("BERTH_GOLDEN") : ""; golden == "write")
        sys::write_all(sys::open_file("tests/fixtures/plan.golden", 01101, 0644).get(), text, "plan.golden");
    CHECK(text == sys::read_file("tests/fixtures/plan.golden"));
}
