#include "runtime/base/error.hh"
#include "runtime/plan/messages.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("messages: a step's request is the same on both ends", "[messages]") {
    StepRequest request;
    request.options = {{"container-image", "r/n:t"}, {"container-mounts", "/a,b"}, {"container-readonly", ""}};
    request.job = 4294967295;
    request.step = "batch";
    request.node = "n1";
    request.uid = 1000;
    request.gid = 1001;
    request.cwd = "/home/a b";
    request.tmp_fs = "/scratch";
    request.slurm = "/opt/slurm";
    request.batch_script = "/var/spool/job1/slurm_script";
    request.environment = {"A=1", "A=2", "N=x\ny", "EMPTY="};
    request.settings = {"BERTH_DEFAULTS_CONTAINER_SCOPE=job"};
    CHECK(decode_step(encode(request)) == request);
}

TEST_CASE("messages: every option reaches the helper", "[messages]") {
    for (const SrunOption& option : srun_options()) {
        StepRequest request;
        request.options = {{option.name, option.argument != nullptr ? "a value" : ""}};
        CHECK(decode_step(encode(request)) == request);
    }
    // Of another version: refused where it is used, by its name.
    Message message = encode(StepRequest());
    message.add("option:container-magic", "x");
    CHECK_THROWS_WITH(request_of(decode_step(message).options), Catch::Contains("--container-magic is no option"));
}

TEST_CASE("messages: tasks, answers and failures are the same on both ends", "[messages]") {
    TaskRequest task{3, {"PATH=/bin", "X="}};
    CHECK(decode_task(encode(task)) == task);
    task.asks_for_devices = true;
    CHECK(decode_task(encode(task)) == task);

    Ready ready{
        "/work", {{"PATH", "/usr/bin"}, {"LANG", std::nullopt}, {"E", ""}, {"EQ", "a=b"}}, std::string("\0\1\2", 3)};
    CHECK(decode_ready(encode(ready)) == ready);
    ready.devices = {{"nvidia",
                      {{"CUDA_VISIBLE_DEVICES", DeviceVariable::Form::uuid},
                       {"ROCR_VISIBLE_DEVICES", DeviceVariable::Form::position}},
                      {{"GPU-1", false, true, 2, {"/dev/nvidia1"}}, {"", true, true, 0, {"/dev/nvidia0"}}}},
                     {"other",
                      {{"OTHER", DeviceVariable::Form::position}, {"BEHIND_IT", DeviceVariable::Form::nested}},
                      {{"", false, false, 0, {}}}}};
    CHECK(decode_ready(encode(ready)) == ready);
    ready.phases = {{"namespaces", 310}, {"enter", 0}};
    CHECK(decode_ready(encode(ready)) == ready);
    ready.own_cgroup = true;
    CHECK(decode_ready(encode(ready)) == ready);
    ready.found = FoundDevices{};
    CHECK(decode_ready(encode(ready)) == ready);
    ready.found = FoundDevices{{"/dev/nvidia0", "/a b\nc"}, {"NVIDIA_VISIBLE_DEVICES=all", "X="}};
    CHECK(decode_ready(encode(ready)) == ready);
    for (bool home : {false, true}) {
        ready.mount_home = home;
        ready.mounts = {"0 a", ""};
        CHECK(decode_ready(encode(ready)) == ready);
    }

    Failure failure{"no such image", 127, true};
    CHECK(decode_failure(encode(failure)) == failure);

    CHECK(progress_text(last_message("the container has ended")) == "the container has ended");
    CHECK(is_last(last_message("x")));
    CHECK_FALSE(is_last(progress_message("last")));

    CHECK(is(join_message(), MessageType::join));
    CHECK(progress_message("pulling").value("text") == "pulling");
}

TEST_CASE("messages: of another release records are passed over that are not known, and may lack that were added",
          "[messages][release]") {
    StepRequest request;
    request.node = "n1";
    Message step = encode(request);
    step.add("new-record", "x");
    std::erase_if(step.records, [](const auto& record) { return record.first == "slurm"; });
    CHECK(decode_step(step) == request);
    Message task = encode(TaskRequest{1, {"A=1"}}), ready = encode(Ready{"/w", {}, ""}),
            info = encode(HelperInfo{5, 6}), failure = encode(Failure{"x", 1, false});
    for (Message* message : {&task, &ready, &info, &failure}) message->add("new-record", "x");
    CHECK(decode_task(task) == TaskRequest{1, {"A=1"}});
    CHECK(decode_ready(ready) == Ready{"/w", {}, ""});
    CHECK(decode_info(info) == HelperInfo{5, 6});
    CHECK(decode_info(encode(HelperInfo{5, 6, 7 << 20})) == HelperInfo{5, 6, 7 << 20});
    CHECK(decode_failure(failure) == Failure{"x", 1, false});
    // What every release of this version has is not left out.
    std::erase_if(task.records, [](const auto& record) { return record.first == "local-id"; });
    CHECK_THROWS_WITH(decode_task(task), Catch::Contains("it has no local-id; install the plugin and berth from"));
}

TEST_CASE("messages: of another version those are read by which releases refuse each other, and no others",
          "[messages][release]") {
    auto of_version_9 = [](Message message) {
        message.version = 9;
        return message;
    };
    CHECK(decode_failure(of_version_9(encode(Failure{"x", 1, false}))).line == "x");
    CHECK(progress_text(of_version_9(progress_message("x"))) == "x");
    CHECK(decode_info(of_version_9(encode(HelperInfo{5, 6}))) == HelperInfo{5, 6});
    auto other = Catch::Contains("of another release (version 9, here 2); install the plugin and berth from the same");
    CHECK_THROWS_WITH(decode_step(of_version_9(encode(StepRequest()))), other);
    CHECK_THROWS_WITH(decode_task(of_version_9(encode(TaskRequest()))), other);
    CHECK_THROWS_WITH(decode_ready(of_version_9(encode(Ready()))), other);
    CHECK_FALSE(refusal_of(encode(TaskRequest())));
    auto refusal = refusal_of(of_version_9(encode(TaskRequest())));
    REQUIRE(refusal);
    CHECK_THAT(refusal->line, Catch::Contains("version 2, yours 9); use that release"));
}

TEST_CASE("messages: wrong types and missing parts are errors", "[messages]") {
    CHECK_THROWS_AS(decode_ready(encode(Failure{"x", 1, false})), Error);
    CHECK_THROWS_AS(decode_step(join_message()), Error);
    Message message = encode(Failure{"x", 1, false});
    message.records.clear();
    CHECK_THROWS_AS(decode_failure(message), Error);
    message.add("line", "x");
    message.add("exit-code", "256");
    message.add("shown", "0");
    CHECK_THROWS_AS(decode_failure(message), Error);
}
