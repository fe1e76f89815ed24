#include "runtime/telemetry/event_log.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/telemetry/counters_file.hh"
#include "runtime/telemetry/event_cause.hh"

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
    if (site.events.log == "syslog") return connect_syslog();
    std::string path = event_log_path(site, caller);
    return path.empty() ? Fd() : open_log(path, caller);
}

/// Of one file for all, which the first user has made, since root had not.
std::string trouble_of_others(const plan::Site& site, const plan::Caller& caller) {
    const std::string& log = site.events.log;
    bool each = log.find("%u") != log.npos || log.find("%U") != log.npos || log.find("%h") != log.npos;
    struct stat status {};
    std::string path = event_log_path(site, caller);
    if (each || path.empty() || caller.uid == 0 || ::lstat(path.c_str(), &status) != 0 || status.st_uid != caller.uid)
        return {};
    return cat("events.log: ", printable(path, 4096), " belongs to you, and other users' events are lost");
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

std::string event_log_path(const plan::Site& site, const plan::Caller& caller) {
    if (site.events.log.empty() || site.events.log == "syslog") return {};
    plan::Job job;
    job.node = host_name();
    return plan::path_for(site.events.log, caller, job).value_or("");
}

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

std::string counters_to_come(const plan::Site& site, const plan::Caller& caller) {
    if (site.events.counters.find("%U") == std::string::npos) return {};
    std::string path = plan::path_for(site.events.counters, caller);
    struct stat status {};
    return ::lstat(path.c_str(), &status) != 0 && errno == ENOENT ? path : "";
}

std::vector<std::string> event_troubles(const plan::Site& site, const plan::Caller& caller) {
    std::vector<std::string> out;
    for (Opening* open : {open_destination, open_counter_file}) try {
            (void)open(site, caller);
        } catch (const Error& error) {
            out.emplace_back(error.what());
        }
    if (std::string trouble = trouble_of_others(site, caller); !trouble.empty()) out.push_back(trouble);
    return out;
}

int64_t event_time() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace berth
