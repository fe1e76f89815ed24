// What the kernel tests share: images made in memory, and children that act as an ordinary user while only the parent
// asserts.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include "runtime/container/start.hh"
#include "runtime/plan/plan.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/kernel/look.hh"
#include "tests/kernel/programs.hh"

namespace berth::squash {
class CompressorPool;
}

namespace berth::kernel_test {

/// The user that tests act as: 2001 when the tests run as root, else whoever runs them.
uid_t test_uid();
gid_t test_gid();

/// Why containers cannot be started here, or an empty text.
std::string missing_need();

/// Ends the test when `what`, a text that says what it lacks here, is not empty: a failure with BERTH_MUST_RUN=1, else
/// said aloud.
#define NEED(what)                                                                             \
    do {                                                                                       \
        if (std::string need = (what); !need.empty()) {                                        \
            if (const char* must = getenv("BERTH_MUST_RUN"); must && std::string(must) == "1") \
                FAIL("cannot run: " << need);                                                  \
            WARN("NOT RUN, nothing was tested: " << need);                                     \
            return;                                                                            \
        }                                                                                      \
    } while (false)

#define NEED_CONTAINERS() NEED(berth::kernel_test::missing_need())
#define NEED_ROOT() NEED(geteuid() == 0 ? "" : "not root")

/// What a child came back with.
struct Outcome {
    std::string text;   ///< the result of its body
    std::string error;  ///< the line of the Error it ended with
    int exit_code = 0;  ///< of that Error
    bool hung = false;  ///< had to be killed after the time limit
};

/// Runs `body` in a forked child as the test user. A container that the child is the server of is ended with it.
Outcome as_user(const std::function<std::string()>& body, std::chrono::seconds limit = std::chrono::seconds(20));

/// Makes the calling process, a child, act as the test user for good.
void as_user_here();

/// Runs `body` in a forked child with this process's identity.
Outcome in_child(const std::function<std::string()>& body, std::chrono::seconds limit = std::chrono::seconds(20));

using Fill = std::function<void(squash::LayerWriter&)>;

/// An image of one layer that `fill` writes, in memory.
ContainerImage make_image(const Fill& fill);
/// An image of several layers, the base first; each with the pool of its place in `pools`, as far as these go.
ContainerImage make_image(const std::vector<Fill>& layers, const std::vector<squash::CompressorPool*>& pools = {},
                          const plan::ImageConfig& config = {});

/// Adds a file with `content`.
void add_file(squash::LayerWriter& writer, const std::string& path, const std::string& content, uint32_t mode = 0644);

/// The path of the static program (tests/fixtures/inside.cc) that stands beside the tests.
std::string inside_program();

/// /bin/inside (tests/fixtures/inside.cc) and a few files, with /etc, /tmp, /dev.
void fill_sample(squash::LayerWriter& writer);

/// What the test user finds on this node: root could read more of it than a container of that user's can hide.
plan::HostFacts user_facts();
/// The plan that `berth run` makes for `request`, for the test user.
plan::Plan plan_for(plan::Request request = {}, const plan::ImageConfig& config = {});
/// A plan that does nothing.
plan::Plan bare_plan();

plan::Edit bind_of(const std::string& source, const std::string& target, bool read_only = false);

/// Starts a container of `plan` and `fill`, runs `inside` in a task of it, and gives back what that returned.
Outcome in_container(const plan::Plan& plan, const Fill& fill, const std::function<std::string()>& inside);

/// In a server: runs `inside` in a child that joined the container; throws what it threw.
std::string run_task(const StartedContainer& container, const std::function<std::string()>& inside);

/// A folder below /tmp that belongs to the test user and goes away with the object.
class Folder {
  public:
    Folder();
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    void file(const std::string& name, const std::string& content) const;
    void directory(const std::string& name) const;

  private:
    std::string path_;
};

}  // namespace berth::kernel_test
