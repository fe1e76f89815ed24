#include "runtime/telemetry/event_log.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/telemetry/counters_file.hh"

namespace berth {

namespace {

constexpr char syslog_socket[] = "/dev/log";

/// Never blocks: a syslog that is stuck must not hold up a job.
Fd connect_syslog() {
    Fd out(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, syslog_socket, sizeof syslog_socket);
    if (!out || ::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw SysError(cat("connecting to syslog at ", syslog_socket));
    return out;
}

/// The user's own file, or one that root made for all.
Fd open_log(const std::string& path, const plan::Caller& caller) {
    Fd out = sys::open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0640);
    struct stat status = sys::stat_of(out.get(), path);
    if (!S_ISREG(status.st_mode) || (status.st_uid != caller.uid && status.st_uid != 0))
        throw Error(cat("opening the event log ", printable(path, 4096), ": not a plain file of user ", caller.uid,
                        " or root; let root remove it"));
    return out;
}

Fd open_destination(const plan::Site& site, const plan::Caller& caller) {
    if (site.events.log.empty()) return {};
    return site.events.log == "syslog" ? connect_syslog() : open_log(plan::path_for(site.events.log, caller), caller);
}

Fd open_counter_file(const plan::Site& site, const plan::Caller& caller) {
    return site.events.counters.empty() ? Fd()
                                        : open_counters(plan::path_for(site.events.counters, caller), caller.uid);
}

using Opening = Fd(const plan::Site&, const plan::Caller&);

Fd opened_or_not(Opening* open, const plan::Site& site, const plan::Caller& caller) try {
    return open(site, caller);
} catch (const Error&) {
    return {};
}

}  // namespace

EventLog::EventLog(const plan::Site& site, const plan::Caller& caller)
    : log_(opened_or_not(open_destination, site, caller)),
      counters_(opened_or_not(open_counter_file, site, caller)),
      syslog_(site.events.log == "syslog") {}

void EventLog::write(const plan::Event& event) {
    if (log_) send(event);
    if (!counters_) return;
    try {
        count_event(counters_.get(), event);
    } catch (const Error&) {
        counters_.reset();
    }
}

void EventLog::send(const plan::Event& event) const {
    std::string line = plan::json_line(event);
    if (syslog_) {
        // Facility user; severity warning for failures, else info.
        std::string message =
            cat(event.kind == plan::Event::Kind::failure ? "<12>" : "<14>", "berth[", ::getpid(), "]: ", trimmed(line));
        static_cast<void>(::send(log_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
        return;
    }
    // In one write, which O_APPEND keeps whole beside those of other processes.
    static_cast<void>(!::write(log_.get(), line.data(), line.size()));
}

std::vector<std::string> event_troubles(const plan::Site& site, const plan::Caller& caller) {
    std::vector<std::string> out;
    for (Opening* open : {open_destination, open_counter_file}) try {
            (void)open(site, caller);
        } catch (const Error& error) {
            out.emplace_back(error.what());
        }
    return out;
}

int64_t event_time() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace berth
