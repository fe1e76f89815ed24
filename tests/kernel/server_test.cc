// The file server of a container: what it keeps from its tasks, and what damage does to it.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("the server is closed to its tasks and has no privileges", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill_sample);
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan_for(), std::move(image), {});
        pid_t server = ::getpid();
        std::string text = status_line("Threads") == "1" ? "no threads" : "threads";
        for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string status = thread.path() / "status";
            text += cat(" ", status_line("CapEff", status), status_line("CapBnd", status),
                        status_line("NoNewPrivs", status));
        }
        return text + "; " + run_task(container, [server] {
                   return in_order({verdict(::access(cat("/proc/", server, "/root/").c_str(), F_OK)),
                                    verdict(::open(cat("/proc/", server, "/mem").c_str(), O_RDONLY | O_CLOEXEC))});
               });
    });
    CHECK(seen.error == "");
    std::string none = " 000000000000000000000000000000001";
    size_t threads = (seen.text.find(';') - strlen("threads")) / none.size();
    std::string expected = "threads";
    for (size_t i = 0; i < threads; ++i) expected += none;
    CHECK(threads >= 2);
    CHECK(seen.text == expected + "; Permission denied Permission denied");
}

TEST_CASE("the server's threads hold no descriptor of the rest of the process", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill_sample);
    Outcome seen = as_user([&] {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
        Fd reading(ends[0]), writing(ends[1]);
        StartedContainer container = start_container(plan_for(), std::move(image), {});
        writing.reset();
        pollfd wait{reading.get(), POLLIN, 0};
        std::string text = ::poll(&wait, 1, 1000) == 1 && wait.revents & POLLHUP ? "end of file" : "still open";
        // And the other way round: /dev/fuse and the layers are not in the table of the thread that goes on.
        for (const auto& fd : std::filesystem::directory_iterator("/proc/thread-self/fd")) {
            std::error_code gone;
            std::string target = std::filesystem::read_symlink(fd.path(), gone);
            if (target.find("fuse") != std::string::npos || target.find("layer") != std::string::npos)
                text += " " + target;
        }
        return text;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "end of file");
}

TEST_CASE("hostile row 48: damaged data gives EIO, and the container goes on", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    auto fill = [](squash::LayerWriter& writer) {
        fill_sample(writer);
        std::string text;
        for (int i = 0; i < 60000; ++i) text += cat(i * 7919 % 10007, " ");
        add_file(writer, "victim", text);
    };
    ContainerImage image = make_image(fill);
    uint32_t number = image.index.lookup(1, "victim");
    squash::FileData data = image.index.file(number).value();
    REQUIRE(data.block_count > 0);
    std::string junk(1000, '\xa5');
    REQUIRE(::pwrite(image.layers[0].get(), junk.data(), junk.size(), static_cast<off_t>(data.start)) == 1000);
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan_for(), std::move(image), {});
        return run_task(container, [] {
            Fd fd = sys::open_file("/victim", O_RDONLY);
            char buffer[100];
            return in_order({verdict(::read(fd.get(), buffer, sizeof buffer)), slurp("/etc/hello")});
        });
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "Input/output error hello\n");
}
