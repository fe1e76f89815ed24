// Containers started for real: what a task sees, what it may do, and what is left when it ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

std::string pattern(size_t size) {
    std::string text(size, '\0');
    uint32_t state = 1;
    for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 28);
    return text;
}

}  // namespace

TEST_CASE("a task sees the image's files", "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string big = pattern((3 << 20) + 12345);
    auto fill = [&](squash::LayerWriter& writer) {
        fill_sample(writer);
        add_file(writer, "big", big);
        add_file(writer, "none", "");
        writer.begin_file("sparse", {});
        writer.append("x");
        writer.append_zeros(1 << 20);
        writer.append("y");
        writer.end_file();
        writer.add_hardlink("hard", "etc/hello");
        for (int i = 0; i < 3000; ++i) add_file(writer, cat("many/file", i), cat(i));
    };
    Outcome seen = in_container(plan_for(), fill, [&] {
        std::string text = slurp("/etc/hello") + slurp("/etc/link") + slurp("/hard") + names_in("/empty") + "\n";
        text += slurp("/big") == big ? "big\n" : "big differs\n";
        std::string sparse = slurp("/sparse");
        text += sparse == "x" + std::string(1 << 20, '\0') + "y" ? "sparse\n" : "sparse differs\n";
        text += cat("none", slurp("/none"), " ", split(names_in("/many"), ' ').size() - 1, " ", slurp("/many/file2999"),
                    "\n");
        struct stat one {
        }, two{};
        stat("/hard", &one);
        stat("/etc/hello", &two);
        text += one.st_nlink == 2 && one.st_ino == two.st_ino ? "linked\n" : "not linked\n";
        return text + verdict(access("/missing", F_OK)) + verdict(access("/missing", F_OK));
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "hello\nhello\nhello\n\nbig\nsparse\nnone 3000 2999\nlinked\nNo such file or directoryNo such file or "
          "directory");
}

TEST_CASE("a static program of the image runs", "[kernel][start]") {
    NEED_CONTAINERS();
    Outcome ran = in_container(plan_for(), fill_sample, [] {
        return output_of({"/bin/inside", "a b"}) + output_of({"/bin/inside", "fail"}) + output_of({"/bin/no"});
    });
    std::string ids = cat(" uid=", test_uid(), " gid=", test_gid(), " euid=", test_uid(), "\n");
    CHECK(ran.error == "");
    CHECK(ran.text == cat("inside a b", ids, "|0inside fail", ids, "|7|127"));
}

TEST_CASE("layers are merged", "[kernel][start]") {
    NEED_CONTAINERS();
    auto base = [](squash::LayerWriter& writer) {
        add_file(writer, "keep", "base");
        add_file(writer, "gone", "base");
        add_file(writer, "changed", "base");
    };
    auto top = [](squash::LayerWriter& writer) {
        add_file(writer, ".wh.gone", "");
        add_file(writer, "changed", "top");
    };
    ContainerImage image = make_image(std::vector<Fill>{base, top});
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(bare_plan(), std::move(image), {});
        return run_task(container, [] { return names_in("/") + slurp("/keep") + slurp("/changed"); });
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "changed keep basetop");
}

TEST_CASE("layers of different codecs and block sizes are one image", "[kernel][start]") {
    NEED_CONTAINERS();
    using squash::Codec;
    std::vector<std::unique_ptr<squash::CompressorPool>> pools;
    std::vector<squash::CompressorPool*> order;
    std::vector<Fill> fills;
    for (auto [codec, block] : {std::pair{Codec::zstd, 128U << 10},
                                {Codec::lz4, 4U << 10},
                                {Codec::gzip, 1U << 20},
                                {Codec::none, 64U << 10}}) {
        pools.push_back(std::make_unique<squash::CompressorPool>(squash::Compression{codec},
                                                                 squash::PoolLimits{.block_size = block}));
        order.push_back(pools.back().get());
        fills.push_back([number = fills.size()](squash::LayerWriter& writer) {
            add_file(writer, cat("file", number), pattern(1'500'000 + number));
        });
    }
    ContainerImage image = make_image(fills, order);
    // A process with threads is none to fork.
    pools.clear();
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(bare_plan(), std::move(image), {});
        return run_task(container, [] {
            std::string same;
            for (size_t number = 0; number < 4; ++number)
                same += slurp(cat("/file", number)) == pattern(1'500'000 + number) ? "same " : "different ";
            return same;
        });
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "same same same same ");
}

TEST_CASE("the root is writable and the image unchanged", "[kernel][start]") {
    NEED_CONTAINERS();
    Outcome wrote = in_container(plan_for(), fill_sample, [] {
        return in_order({write_to("/etc/hello", "changed"), slurp("/etc/hello"), verdict(mkdir("/new", 0755)),
                         verdict(rename("/etc/link", "/new/link")), verdict(unlink("/etc/hello")),
                         verdict(rmdir("/empty")), names_in("/new"), names_in("/empty"),
                         verdict(access("/etc/hello", F_OK))});
    });
    CHECK(wrote.error == "");
    CHECK(wrote.text == "ok changed ok ok ok ok link  missing No such file or directory");
}

TEST_CASE("files and directories of the root are on one file system", "[kernel][start]") {
    NEED_CONTAINERS();
    // Else `tar --one-file-system`, `rsync -x` and `du -x` leave the image's files out.
    Outcome seen = in_container(plan_for(), fill_sample, [] {
        struct stat directory {
        }, file{}, made{}, before{}, after{};
        stat("/etc", &directory);
        stat("/etc/hello", &file);
        write_to("/new", "x");
        stat("/new", &made);
        stat("/etc/group", &before);
        write_to("/etc/group", "x");
        stat("/etc/group", &after);
        return in_order({directory.st_dev == file.st_dev ? "one" : "two", made.st_dev == file.st_dev ? "one" : "two",
                         before.st_ino == after.st_ino ? "same" : "changed"});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "one one same");
}

TEST_CASE("the writable layer has a limit", "[kernel][start]") {
    NEED_CONTAINERS();
    plan::Plan plan = bare_plan();
    plan.tmpfs_size = 1 << 20;
    Outcome wrote = in_container(plan, fill_sample, [] {
        return in_order({write_to("/a", std::string(512 << 10, 'x')), write_to("/b", std::string(2 << 20, 'x'))});
    });
    CHECK(wrote.error == "");
    CHECK(wrote.text != "ok ok");
    CHECK(wrote.text.starts_with("ok "));
}

TEST_CASE("a read-only root refuses writes, its mounts do not", "[kernel][start]") {
    NEED_CONTAINERS();
    plan::Request request;
    request.writable = false;
    Outcome wrote = in_container(plan_for(request), fill_sample, [] {
        return in_order(
            {write_to("/etc/hello", "x"), write_to("/new", "x"), write_to("/tmp/x", "x"), slurp("/etc/hello")});
    });
    CHECK(wrote.error == "");
    CHECK(wrote.text == "Read-only file system Read-only file system ok hello\n");
}

TEST_CASE("hostile row 59: an image with nothing but one program runs it", "[kernel][start]") {
    NEED_CONTAINERS();
    auto fill = [](squash::LayerWriter& writer) { add_file(writer, "inside", slurp(inside_program()), 0755); };
    Outcome ran =
        in_container(plan_for(), fill, [] { return output_of({"/inside"}) + names_in("/") + names_in("/etc"); });
    CHECK(ran.error == "");
    CHECK_THAT(ran.text, Catch::StartsWith("inside uid="));
    CHECK_THAT(ran.text, Catch::Contains("|0dev etc inside proc run sys tmp "));
    CHECK_THAT(ran.text, Catch::Contains("group"));
}

TEST_CASE("working directories", "[kernel][start]") {
    NEED_CONTAINERS();
    auto where = [] {
        char path[4096];
        return std::string(getcwd(path, sizeof path) ? path : "nowhere");
    };
    plan::Plan plan = bare_plan();

    plan.workdir = "/made/by/start";
    CHECK(in_container(plan, fill_sample, where).text == "/made/by/start");

    plan.workdir_required = true;
    Outcome missing = in_container(plan, fill_sample, where);
    CHECK(missing.exit_code == 125);
    CHECK(missing.error ==
          "entering the working directory of --container-workdir /made/by/start: No such file or directory in the "
          "container");

    plan.workdir = "/etc/hello";
    Outcome file = in_container(plan, fill_sample, where);
    CHECK(file.exit_code == 125);
    CHECK(file.error == "entering the working directory of --container-workdir /etc/hello: it is not a directory");

    plan.workdir = "/etc";
    plan.writable = false;
    CHECK(in_container(plan, fill_sample, where).text == "/etc");
}

TEST_CASE("hostile row 63: a working directory behind a link of /proc is refused", "[kernel][start]") {
    NEED_CONTAINERS();
    plan::Plan plan = bare_plan();
    plan.edits.push_back(bind_of("/proc", "/proc"));
    bool required = GENERATE(true, false);
    plan.workdir_required = required;
    // Directly, and by a symlink of the image.
    plan.workdir = GENERATE(as<std::string>(), "/proc/self/fd/0", "/proc/self/root", "/sneaky");
    auto fill = [](squash::LayerWriter& writer) {
        fill_sample(writer);
        writer.add_symlink("sneaky", {}, "/proc/self/cwd");
    };
    Outcome refused = in_container(plan, fill, [] { return std::string("started"); });
    CHECK(refused.text == "");
    CHECK(refused.exit_code == 125);
    CHECK_THAT(refused.error, Catch::EndsWith("(links of /proc are not followed)"));
}

#if defined(__x86_64__)
TEST_CASE("32-bit programs without large-file support see an image's files", "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string program = slurp(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "old_calls");
    bool has_loader = GENERATE(false, true);
    Outcome seen = in_container(
        plan_for(),
        [&](squash::LayerWriter& writer) {
            fill_sample(writer);
            add_file(writer, "bin/old", program, 0755);
            writer.add_symlink("lib", {}, "usr/lib");
            if (has_loader) add_file(writer, "usr/lib/ld-linux.so.2", "x", 0755);
        },
        [] {
            pid_t child = fixtures::forked();
            if (child == 0) {
                ::execl("/bin/old", "old", "/etc/hello", "/etc", nullptr);
                ::_exit(errno);
            }
            int status = 0;
            ::waitpid(child, &status, 0);
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
            return code == 0 ? std::string("seen") : std::string(strerror(code));
        });
    CHECK(seen.error == "");
    // An image without such a loader keeps one device number, for `du -x`.
    CHECK(seen.text == (has_loader ? "seen" : strerror(EOVERFLOW)));
}
#endif
