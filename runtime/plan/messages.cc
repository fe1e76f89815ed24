#include "runtime/plan/messages.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

constexpr uint64_t id_limit = 0xFFFFFFFF;

Message message_of(MessageType type) {
    Message out;
    out.type = static_cast<uint16_t>(type);
    return out;
}

bool is_of_every_version(MessageType type) {
    return type != MessageType::step && type != MessageType::task && type != MessageType::ready;
}

void expect(const Message& message, MessageType type) {
    if (message.version != channel_version && !is_of_every_version(type))
        throw Error(cat("reading a message of berth's plugin or helper: it is of another release (version ",
                        message.version, ", here ", channel_version,
                        "); install the plugin and berth from the same release"));
    if (!is(message, type))
        throw Error(
            cat("reading a message of berth's plugin or helper: it has type ", message.type, " where another was due"));
}

}  // namespace

Message encode(const StepRequest& request) {
    Message out = message_of(MessageType::step);
    for (const auto& [name, value] : request.options) out.add("option:" + name, value);
    out.add_number("job", request.job);
    out.add("step", request.step);
    out.add("node", request.node);
    out.add_number("uid", request.uid);
    out.add_number("gid", request.gid);
    out.add("cwd", request.cwd);
    out.add("tmp-fs", request.tmp_fs);
    out.add("slurm", request.slurm);
    out.add("batch-script", request.batch_script);
    for (const std::string& entry : request.environment) out.add("env", entry);
    out.add_number("tasks", request.tasks);
    out.add_number("node-index", request.node_index);
    for (const std::string& entry : request.settings) out.add("setting", entry);
    return out;
}

StepRequest decode_step(const Message& message) {
    expect(message, MessageType::step);
    StepRequest out;
    for (const auto& [key, value] : message.records)
        if (key.starts_with("option:")) add_option(out.options, key.substr(7), value);
    out.job = static_cast<uint32_t>(message.number("job", id_limit));
    out.step = message.value("step");
    out.node = message.value("node");
    out.uid = static_cast<uid_t>(message.number("uid", id_limit));
    out.gid = static_cast<gid_t>(message.number("gid", id_limit));
    out.cwd = message.value("cwd");
    out.tmp_fs = message.value("tmp-fs");
    // Added after the first release of this version.
    out.slurm = message.find("slurm").value_or("");
    out.batch_script = message.value("batch-script");
    out.environment = message.all("env");
    out.tasks = static_cast<uint32_t>(message.number("tasks", id_limit));
    out.node_index = static_cast<uint32_t>(message.number("node-index", id_limit));
    out.settings = message.all("setting");
    return out;
}

Message encode(const TaskRequest& request) {
    Message out = message_of(MessageType::task);
    out.add_number("local-id", request.local_id);
    if (request.asks_for_devices) out.add_number("asks-for-devices", 1);
    for (const std::string& entry : request.environment) out.add("env", entry);
    return out;
}

TaskRequest decode_task(const Message& message) {
    expect(message, MessageType::task);
    return {static_cast<uint32_t>(message.number("local-id", id_limit)), message.all("env"),
            message.find("asks-for-devices") == "1"};
}

Message encode(const Ready& ready) {
    Message out = message_of(MessageType::ready);
    out.add("workdir", ready.workdir);
    out.add("seccomp", ready.seccomp_program);
    for (uint32_t type : ready.namespaces) out.add_number("namespace", type);
    out.add_number("remap-root", ready.remap_root ? 1 : 0);
    out.add_number("writable", ready.writable ? 1 : 0);
    out.add_number("capabilities", ready.capabilities);
    if (ready.own_cgroup) out.add_number("own-cgroup", 1);
    if (ready.nested) out.add_number("nested", 1);
    if (ready.mount_home) out.add_number("mount-home", *ready.mount_home ? 1 : 0);
    for (const std::string& mount : ready.mounts) out.add("mount", mount);
    for (const std::string& word : ready.entrypoint) out.add("entrypoint", word);
    for (const VisibleDevices& vendor : ready.devices) {
        out.add("devices", vendor.vendor);
        for (const DeviceVariable& variable : vendor.variables)
            if (variable.form == DeviceVariable::Form::nested)
                out.add("nested-variable", variable.name);
            else
                out.add("device-variable", device_variable_text(variable));
        for (const VisibleDevice& device : vendor.devices) out.add("device", visible_device_text(device));
    }
    if (ready.found) {
        out.add_number("found-devices", 1);
        for (const std::string& file : ready.found->files) out.add("device-file", file);
        for (const std::string& text : ready.found->image) out.add("image-variable", text);
    }
    for (const PhaseTime& phase : ready.phases) out.add("phase", cat(phase.name, '=', phase.microseconds));
    for (const EnvironmentChange& change : ready.environment)
        if (change.value)
            out.add("set", cat(change.name, '=', *change.value));
        else
            out.add("unset", change.name);
    return out;
}

Ready decode_ready(const Message& message) {
    expect(message, MessageType::ready);
    Ready out;
    out.workdir = message.value("workdir");
    out.seccomp_program = message.value("seccomp");
    out.remap_root = message.find("remap-root") == "1";
    out.writable = message.find("writable") != "0";
    out.capabilities = message.number("capabilities", UINT64_MAX);
    out.own_cgroup = message.find("own-cgroup") == "1";
    out.nested = message.find("nested") == "1";
    if (auto home = message.find("mount-home")) out.mount_home = *home == "1";
    out.mounts = message.all("mount");
    out.entrypoint = message.all("entrypoint");
    if (message.find("found-devices") == "1")
        out.found = FoundDevices{message.all("device-file"), message.all("image-variable")};
    for (const auto& [key, value] : message.records) {
        size_t equals = value.find('=');
        uint64_t number = 0;
        if (key == "namespace" && parse_number(value, id_limit, number))
            out.namespaces.push_back(static_cast<uint32_t>(number));
        else if (key == "devices")
            out.devices.push_back({value, {}, {}});
        else if (key == "device-variable" && !out.devices.empty())
            out.devices.back().variables.push_back(parse_device_variable(value));
        else if (key == "nested-variable" && !out.devices.empty())
            out.devices.back().variables.push_back({value, DeviceVariable::Form::nested});
        else if (key == "device" && !out.devices.empty())
            out.devices.back().devices.push_back(parse_visible_device(value));
        else if (key == "phase" && equals != std::string::npos &&
                 parse_number(value.substr(equals + 1), UINT64_MAX, number))
            out.phases.push_back({value.substr(0, equals), number});
        else if (key == "set" && equals != std::string::npos)
            out.environment.push_back({value.substr(0, equals), value.substr(equals + 1)});
        else if (key == "unset")
            out.environment.push_back({value, std::nullopt});
    }
    return out;
}

Message encode(const Failure& failure) {
    Message out = message_of(MessageType::failure);
    out.add("line", failure.line);
    out.add_number("exit-code", static_cast<uint64_t>(failure.exit_code));
    out.add_number("shown", failure.shown ? 1 : 0);
    return out;
}

Failure decode_failure(const Message& message) {
    expect(message, MessageType::failure);
    return {message.value("line"), static_cast<int>(message.number("exit-code", 255)), message.number("shown", 1) == 1};
}

bool is_last(const Message& message) { return message.find("last") == "1"; }

std::string progress_text(const Message& message) {
    expect(message, MessageType::progress);
    return message.value("text");
}

Message encode(const HelperInfo& info) {
    Message out = message_of(MessageType::info);
    out.add_number("user-namespace", info.user_namespace);
    out.add_number("started", static_cast<uint64_t>(info.started));
    if (info.memory != 0) out.add_number("memory", info.memory);
    return out;
}

HelperInfo decode_info(const Message& message) {
    expect(message, MessageType::info);
    HelperInfo out{message.number("user-namespace", UINT64_MAX),
                   static_cast<int64_t>(message.number("started", INT64_MAX))};
    // Another release's does not say it.
    if (message.find("memory")) out.memory = message.number("memory", UINT64_MAX);
    return out;
}

Message status_message() {
    return message_of(MessageType::status);
}

Message stop_message() {
    return message_of(MessageType::stop);
}

std::optional<Failure> refusal_of(const Message& request) {
    if (request.version == channel_version) return std::nullopt;
    return Failure{cat("joining the container: its helper is of another release of berth than you (its messages have "
                       "version ",
                       channel_version, ", yours ", request.version,
                       "); use that release, or wait for the container's end, or end it (berth rm --force)"),
                   exit_failure, false};
}

Message join_message() {
    return message_of(MessageType::join);
}

Message last_message(std::string_view text) {
    Message out = progress_message(text);
    out.add_number("last", 1);
    return out;
}

Message progress_message(std::string_view text) {
    Message out = message_of(MessageType::progress);
    out.add("text", text);
    return out;
}

}  // namespace berth::plan
