// What those say who want something of a container's helper.
#include <sys/socket.h>

#include <cerrno>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/container/named/helper.hh"

namespace berth {

namespace {

constexpr int answer_ms = 60'000;

/// The answer to a message; nothing when the helper has gone.
std::optional<Received> ask(int connection, const Message& message, const std::function<void()>& waiting = {}) {
    try {
        send_message(connection, message, {}, answer_ms);
        if (waiting) waiting();
        return receive_message(connection);
    } catch (const SysError& error) {
        if (error.number() == EPIPE || error.number() == ECONNRESET) return receive_message(connection, 0);
        throw;
    }
}

}  // namespace

std::optional<JoinedContainer> ask_to_join(int connection, const std::vector<std::string>& environment,
                                           const std::function<void()>& waiting) {
    return ask_to_join(connection, plan::TaskRequest{0, environment}, waiting);
}

std::optional<JoinedContainer> ask_to_join(int connection, const plan::TaskRequest& task,
                                           const std::function<void()>& waiting) {
    std::optional<Received> received;
    try {
        received = ask(connection, plan::encode(task), waiting);
    } catch (const SysError& error) {
        if (error.number() != EPIPE && error.number() != ECONNRESET) throw;
    }
    if (!received) return std::nullopt;
    if (plan::is(received->message, plan::MessageType::failure)) {
        plan::Failure failure = plan::decode_failure(received->message);
        throw Error(failure.line, failure.exit_code);
    }
    plan::Ready ready = plan::decode_ready(received->message);
    std::vector<Fd>& descriptors = received->descriptors;
    if (descriptors.size() != 2 + ready.namespaces.size())
        throw Error(
            "joining a container: its helper sent other namespaces than it says; it is of another version of berth");
    JoinedContainer out;
    out.container.user_namespace = std::move(descriptors[0]);
    out.container.mount_namespace = std::move(descriptors[1]);
    for (size_t i = 0; i < ready.namespaces.size(); ++i)
        out.container.namespaces.push_back({static_cast<int>(ready.namespaces[i]), std::move(descriptors[i + 2])});
    out.container.workdir = ready.workdir;
    out.container.seccomp_program = ready.seccomp_program;
    out.container.capabilities = ready.capabilities;
    out.container.phases = std::move(ready.phases);
    out.environment = std::move(ready.environment);
    out.remap_root = ready.remap_root;
    out.writable = ready.writable;
    out.nested = ready.nested;
    out.mount_home = ready.mount_home;
    out.mounts = std::move(ready.mounts);
    out.entrypoint = std::move(ready.entrypoint);
    out.devices = std::move(ready.devices);
    out.found = std::move(ready.found);
    return out;
}

void leave(Fd connection) {
    // Where it cannot be told, the end of the connection says the same, and nothing is waited for.
    if (::shutdown(connection.get(), SHUT_WR) != 0) return;
    try {
        receive_message(connection.get());
    } catch (const Error&) {
        // It has gone, which is what was waited for.
    }
}

std::optional<plan::HelperInfo> ask_for_status(int connection) {
    auto received = ask(connection, plan::status_message());
    return received ? std::optional(plan::decode_info(received->message)) : std::nullopt;
}

void ask_to_stop(Fd connection) {
    try {
        ask(connection.get(), plan::stop_message());
    } catch (const Error&) {
        // It ended by itself meanwhile.
    }
}

}  // namespace berth
