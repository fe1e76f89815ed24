#include <fcntl.h>

#include "runtime/base/sys.hh"
#include "runtime/doctor/doctor.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("doctor: what a start needs is tried and works where containers start", "[doctor]") {
    NEED_CONTAINERS();
    Outcome outcome = as_user([] {
        DoctorFacts facts = gather_doctor_facts();
        return facts.user_namespace.value_or("") + facts.overlay.value_or("") + facts.fuse.value_or("");
    });
    CHECK(outcome.error == "");
    CHECK(outcome.text.empty());
}

TEST_CASE("doctor: a node that forbids user namespaces is found out, and the sysctl named", "[doctor]") {
    NEED_CONTAINERS();
    Outcome outcome = as_user([] {
        // The limit of a user namespace of one's own is one's own to set.
        plan::Identity root;
        root.host_uid = test_uid();
        root.host_gid = test_gid();
        sandbox::enter_user_namespace(root);
        sys::write_all(sys::open_file("/proc/sys/user/max_user_namespaces", O_WRONLY).get(), "0", "the limit");
        return gather_doctor_facts().user_namespace.value_or("nothing");
    });
    CHECK(outcome.error == "");
    CHECK_THAT(outcome.text,
               Catch::Contains("creating a user namespace") && Catch::Contains("sysctl -w user.max_user_namespaces"));
}
