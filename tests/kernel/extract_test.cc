// Containers of images that are extracted instead of served (mount.engine).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

void write_image(const std::string& path) {
    Fd file = sys::open_file(path, O_CREAT | O_RDWR, 0644);
    squash::LayerWriter writer(file.get(), {});
    fill_sample(writer);
    add_file(writer, "private", "p", 0600);
    writer.finish();
}

}  // namespace

TEST_CASE("an image that is extracted runs as one that is served, without FUSE", "[kernel][start]") {
    NEED_CONTAINERS();
    Folder folder;
    std::string path = folder / "image.sqsh";
    write_image(path);
    plan::Site site;
    site.store.path = folder / "store";
    site.mount.engine = plan::MountEngine::extract;
    for (bool remap : {false, true}) {
        plan::Request request;
        request.remap_root = remap;
        plan::Plan plan = plan_for(request);
        Outcome outcome = as_user([&] {
            OpenedImage opened = open_image(plan::parse_reference(path), caller_of_this_process(), site, {});
            std::string directory = opened.image.directory;
            StartedContainer container = start_container(plan, std::move(opened.image), site);
            std::string text = run_task(container, [] {
                struct stat st {};
                ::stat("/private", &st);
                return in_order({slurp("/etc/hello"), slurp("/private"), st.st_uid == ::getuid() ? "mine" : "not mine",
                                 write_to("/etc/hello", "changed"),
                                 slurp("/proc/self/mounts").find(" fuse ") == std::string::npos ? "no fuse" : "fuse"});
            });
            return text + (directory.starts_with(site.store.path + "/unpacked/") ? " in the store" : directory);
        });
        CHECK(outcome.error == "");
        CHECK(outcome.text == "hello\n p mine ok no fuse in the store");
    }
}
