#include "runtime/base/remove_tree.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

TEST_CASE("a tree is removed whatever its modes, by its owner", "[base]") {
    fixtures::TempFolder folder;
    auto result = fixtures::run_command(
        cat("cd ", folder.path(), " && echo outside > keep && mkdir -p t/a/b/c t/x/y && echo 1 > t/a/b/c/f && ln -s ",
            folder.path(),
            " t/x/out && mkfifo t/x/pipe && "
            "echo 2 > t/x/y/.berth-remove-0 && mkdir t/.berth-remove-0 && touch t/.berth-remove-0/f && chmod 0 "
            "t/a/b/c/f t/a/b/c t/a/b "
            "t/a t/x/y && chmod 0500 t/x t && { [ $(id -u) != 0 ] || chown -R 2100 ",
            folder.path(), "; }"));
    REQUIRE(result.output == "");
    pid_t child = fixtures::forked();
    if (child == 0) {
        if (::geteuid() == 0 && ::setuid(2100) != 0) ::_exit(9);
        try {
            Fd parent = sys::open_file(folder.path(), O_RDONLY | O_DIRECTORY);
            sys::remove_tree(parent.get(), "t", "the tree");
            sys::remove_tree(parent.get(), "t", "the tree");
            ::_exit(0);
        } catch (const Error& error) {
            std::fprintf(stderr, "%s\n", error.what());
            ::_exit(1);
        }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(fixtures::run_command("ls -A " + folder.path()).output == "keep\n");
}

TEST_CASE("a tree of any depth is removed with few descriptors", "[base]") {
    fixtures::TempFolder folder;
    Fd at = sys::open_file(folder.path(), O_RDONLY | O_DIRECTORY),
       parent = sys::open_file(folder.path(), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 5000; ++i) {
        REQUIRE(::mkdirat(at.get(), "deep", 0700) == 0);
        at = sys::open_at(at.get(), "deep", O_RDONLY | O_DIRECTORY);
    }
    sys::remove_tree(parent.get(), "deep", "the tree");
    CHECK(std::filesystem::is_empty(folder.path()));
}
