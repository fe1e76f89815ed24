// The helper of a step beside containers of `berth run`.
#include "runtime/step/step.hh"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/channel.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/plan/messages.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// What a task of a step hears whose options are these: the line of a failure, or "ready". `version` is that of the
/// plugin's messages.
std::string answer_to_task(const NamedScene& scene, const plan::GivenOptions& options,
                           const std::vector<std::string>& environment = {}, uint16_t version = channel_version) {
    auto [plugin, its] = make_channel();
    pid_t helper = fixtures::forked();
    if (helper == 0) {
        plugin.reset();
        serve_step(std::move(its));
        ::_exit(0);
    }
    its.reset();
    plan::StepRequest step;
    step.options = options;
    step.job = 7;
    step.step = "0";
    step.node = "n1";
    step.uid = test_uid();
    step.gid = test_gid();
    step.cwd = "/";
    step.environment = {"BERTH_DATA_PATH=" + scene.data, "BERTH_STORE_PATH=" + scene.folder / "store"};
    step.environment.insert(step.environment.end(), environment.begin(), environment.end());
    auto sent = [&](int socket, Message message, const std::vector<int>& descriptors = {}) {
        message.version = version;
        send_message(socket, message, descriptors);
    };
    sent(plugin.get(), plan::encode(step));
    auto [task, theirs] = make_channel();
    sent(plugin.get(), plan::join_message(), {theirs.get()});
    theirs.reset();
    sent(task.get(), plan::encode(plan::TaskRequest{0, {}}));
    std::string out = "no answer";
    while (auto received = receive_message(task.get(), 10'000)) {
        if (plan::is(received->message, plan::MessageType::progress)) continue;
        bool failed = plan::is(received->message, plan::MessageType::failure);
        out = failed ? plan::decode_failure(received->message).line : "ready";
        break;
    }
    plugin.reset();
    ::waitpid(helper, nullptr, 0);
    return out;
}

}  // namespace

TEST_CASE("step: a named container with processes of its own is refused, since no task of Slurm can enter it",
          "[kernel][named][step]") {
    NEED_CONTAINERS();
    NamedScene scene;
    bool own = GENERATE(true, false);
    Outcome seen = as_user([&] {
        plan::Request request;
        request.unshare.pid = own;
        UsedContainer used = scene.use("c", request);
        std::string out = answer_to_task(scene, {{"container-name", "c"}});
        leave(std::move(used.connection));
        return out;
    });
    CHECK(seen.error == "");
    const std::string refused =
        "joining container c: it has a PID namespace of its own (berth run --pid), which a task of Slurm cannot enter; "
        "end it, and start it without --pid";
    CHECK(seen.text == (own ? refused : "ready"));
}

TEST_CASE("step: what another release's srun asks for and this one does not have is refused by name",
          "[kernel][step][release]") {
    NEED_CONTAINERS();
    NamedScene scene;
    auto answer = [&](const std::vector<std::string>& environment) {
        return as_user([&] { return answer_to_task(scene, {{"container-image", scene.image}}, environment); });
    };
    CHECK(answer({"SLURM_BERTH_OPTIONS=container-image container-magic"}).text ==
          "--container-magic: the berth of this node does not have this option, which that of srun has; leave it out, "
          "or choose nodes of srun's release");
    CHECK_THAT(answer({cat("SLURM_BERTH_FROZEN=", scene.image, " sha512:12")}).text,
               Catch::Contains("which is no digest that this node's berth knows"));
}

TEST_CASE("step: an environment is what srun has read of it, and never a file of the node", "[kernel][step][release]") {
    NEED_CONTAINERS();
    NamedScene scene;
    int number = 0;
    auto answer = [&](const std::string& variable, plan::GivenOptions options) {
        options.emplace_back("container-environment", "ml");
        options.emplace_back("container-name", cat("c", ++number));
        std::vector<std::string> environment = {"A=1"};
        if (!variable.empty()) environment.push_back("SLURM_BERTH_ENVIRONMENT=" + variable);
        return as_user([&] { return answer_to_task(scene, options, environment); }).text;
    };
    const std::string image = cat(" container-image=", scene.image), unread =
        "--container-environment: ml was not read where the step was asked for; use srun or sbatch of a machine with "
        "Berth's plugin";
    CHECK(answer("ml" + image, {}) == "ready");
    CHECK(answer("", {}) == unread);
    CHECK(answer("ml2" + image, {}) == unread);
    CHECK(answer("ml new=1" + image, {}) ==
          "the environment ml: the berth of this node does not know 'new' of it, which that of srun does; choose nodes "
          "of srun's release");
    // An option of a surrounding job does not count where srun says so.
    CHECK_THAT(answer("ml" + image, {{"container-image", "./no-such.sqsh"}}), Catch::Contains("no-such.sqsh"));
    CHECK(answer(cat("ml", image, " replaced=container-image"), {{"container-image", "./no-such.sqsh"}}) == "ready");
    CHECK_THAT(answer(cat("ml", image, " variable=B=${MISSING}"), {}),
               Catch::Contains("--container-environment: env.B: the variable MISSING is not set"));
}

TEST_CASE("step: a plugin of another release is told so, not that its helper died", "[kernel][step][release]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome seen = as_user([&] { return answer_to_task(scene, {{"container-image", scene.image}}, {}, 9); });
    CHECK_THAT(seen.text, Catch::Contains("are of different releases; install both from one release"));
}

TEST_CASE("step: that a container ended with the PID namespace of another job is said as that",
          "[kernel][root][step]") {
    NEED_ROOT();
    Outcome seen = in_child([] {
        // It has a number where it was made alone.
        auto [server, connection] = make_channel();
        auto [reading, writing] = sys::make_pipe();
        server.reset();
        std::string here = reason_of_end(connection.get());
        if (int number = sys::unshare(CLONE_NEWPID); number != 0) throw SysError("a pid namespace", number);
        pid_t init = fixtures::forked();
        if (init == 0) {
            sys::write_all(writing.get(), reason_of_end(connection.get()), "a pipe");
            ::_exit(0);
        }
        writing.reset();
        std::string there = sys::read_all(reading.get(), 4096, "a pipe");
        ::waitpid(init, nullptr, 0);
        return cat(here.find("CLONE_NEWPID") == here.npos, " ", there);
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("1 the container has ended with the job that started it: ") &&
                              Catch::Contains("CLONE_NEWPID in namespace.yaml"));
}
