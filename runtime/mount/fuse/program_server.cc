#include "runtime/mount/fuse/program_server.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/channel.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/fuse_mount.hh"
#include "runtime/plan/messages.hh"

namespace berth::mount {

namespace {

constexpr int answer_ms = 10'000;
constexpr size_t words_limit = 2048;
constexpr const char* serving = "serving the image by squashfuse_ll";
constexpr const char* folders[] = {"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"};

/// What the two processes are made of.
struct Start {
    const std::string& program;
    const ProgramServerOptions& options;
    int mount_point;
    Fd channel;  ///< from the supervisor to who started it
};

/// With the process that started this one gone already, there is nobody to be tied to.
void tie_to_parent(pid_t parent) {
    // Only after the change of credentials, which takes it back.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) throw SysError("tying the file server to the container");
    if (::getppid() != parent) ::_exit(exit_failure);
}

/// Whoever ends a job or a terminal asks first, and commands may take their time to end: their files must be there
/// until then.
void ignore_requests_to_end() {
    for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU})
        ::signal(number, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Descriptors 0, 1 and 2 are /dev/null and `errors`, 3 is the file and 4 is `device`; there are no others.
void arrange_descriptors(int file, int device, int errors) {
    Fd null = sys::open_file("/dev/null", O_RDWR);
    // Out of the way first: any of them may have one of the numbers.
    int sources[] = {null.get(), null.get(), errors, file, device};
    for (int& fd : sources)
        if ((fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 16)) < 0) throw SysError(serving);
    for (int number = 0; number < 5; ++number)
        if (::dup2(sources[number], number) < 0) throw SysError(serving);
    null.release();
    sys::close_range(5, ~0U);
}

/// The program's life. Never returns.
[[noreturn]] void become_program(const Start& start, int device, int errors, pid_t supervisor) {
    try {
        arrange_descriptors(start.options.file, device, errors);
        start.options.confine();
        tie_to_parent(supervisor);
        // The mount is there already: libfuse takes the name of a descriptor for one that is mounted.
        std::string options = "clone_fd", file = "/proc/self/fd/3", place = "/dev/fd/4", name = "squashfuse_ll",
                    foreground = "-f", with = "-o";
        if (start.options.offset > 0) options += cat(",offset=", start.options.offset);
        char* arguments[] = {name.data(), foreground.data(), with.data(), options.data(),
                             file.data(), place.data(),      nullptr};
        // With a number of its own of heaps the C library need not look for that of CPUs in /sys, which later is the
        // container's.
        std::string language = "LC_ALL=C", path = "PATH=/usr/bin:/bin", heaps = "MALLOC_ARENA_MAX=4";
        char* environment[] = {language.data(), path.data(), heaps.data(), nullptr};
        ::execve(start.program.c_str(), arguments, environment);
        throw SysError(cat("running ", start.program));
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(stderr);
    ::_exit(exit_failure);
}

pid_t start_program(const Start& start, int device, int errors) {
    pid_t supervisor = ::getpid(), child = ::fork();
    if (child < 0) throw SysError(serving);
    if (child == 0) become_program(start, device, errors, supervisor);
    return child;
}

/// The last line of what is written until all of its writers have gone.
std::string last_output(int fd) {
    std::string text;
    char buffer[1024];
    for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);) {
        if (got > 0) text.append(buffer, static_cast<size_t>(got));
        if (text.size() > words_limit) text.erase(0, text.size() - words_limit);
    }
    std::string_view line = trimmed(text);
    return printable(line.substr(line.rfind('\n') + 1), 512);
}

/// "ended with code 1 (its words)".
std::string story_of(int status, const std::string& words) {
    std::string out = WIFSIGNALED(status)
                          ? cat("was ended by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
                          : cat("ended with code ", WEXITSTATUS(status));
    return words.empty() ? out : cat(out, " (", words, ")");
}

/// Leaves the supervisor nothing but `first` and `second`, and /dev/null as its standard streams.
void close_all_but(int first, int second) {
    sys::point_at_null({0, 1, 2});
    sys::close_descriptors_except({first, second});
}

/// A line for those who are in the container, and the part of it that also says why a start has failed.
Message ended(const std::string& story) {
    std::string line = cat("the file server squashfuse_ll of the container ", story,
                           ", and with it the container ends; look for the reason in the node's kernel log, or set "
                           "mount.engine to \"berth\"");
    Message out = plan::encode(plan::Failure{line});
    out.add("story", story);
    return out;
}

void tell(int channel, const Message& message) {
    try {
        send_message(channel, message, {}, answer_ms);
    } catch (const Error&) {
        // Who started it has gone.
    }
}

/// The life of the supervisor. Never returns.
[[noreturn]] void be_supervisor(Start start, pid_t parent) {
    ::prctl(PR_SET_NAME, "berth-files");
    int channel = start.channel.get();
    try {
        ::setsid();
        ignore_requests_to_end();
        // With the node's root it becomes the container's; another directory would keep its file system busy.
        if (::chdir("/") != 0) throw SysError(serving);
        auto&& [words, errors] = sys::make_pipe();
        Fd device = open_fuse_device();
        attach_fuse(device.get(), start.options.uid, start.options.gid, start.mount_point);
        pid_t program = start_program(start, device.get(), errors.get());
        // It never may answer for the program, nor keep the connection.
        for (Fd* fd : {&device, &errors}) fd->reset();
        close_all_but(channel, words.get());
        start.options.confine();
        tie_to_parent(parent);
        Message started;
        started.add_number("program", static_cast<uint64_t>(program));
        send_message(channel, started, {}, answer_ms);
        std::string said = last_output(words.get());
        int status = 0;
        while (::waitpid(program, &status, 0) < 0 && errno == EINTR) continue;
        tell(channel, ended(story_of(status, said)));
    } catch (const Error& error) {
        tell(channel, plan::encode(plan::Failure{error.what()}));
    }
    ::_exit(0);
}

/// What the supervisor said last.
std::string story(const ProgramServer& server) {
    try {
        auto received = receive_message(server.end.get(), answer_ms);
        if (received) return received->message.value("story");
    } catch (const Error&) {
        // Of no use to people.
    }
    return "was ended";
}

/// Waits until the program answers, or has ended.
void wait_for_answer(const ProgramServer& server, int folder, const std::string& name) {
    struct stat st {};
    int number = ::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    pollfd ended{server.end.get(), POLLIN, 0};
    // The connection ends a moment before the supervisor knows of it.
    bool told = ::poll(&ended, 1, number == 0 ? 0 : answer_ms) > 0;
    if (number == 0 && !told) return;
    throw Error(cat(serving, ": the program ", told ? story(server) : reason(number),
                    "; set mount.engine to \"berth\" to do without it"));
}

}  // namespace

std::string find_program_server() {
    for (const char* folder : folders)
        if (std::string path = cat(folder, "/squashfuse_ll"); ::access(path.c_str(), X_OK) == 0) return path;
    throw Error(
        "finding the program squashfuse_ll, which mount.engine asks for: it is in none of /usr/bin, /usr/local/bin, "
        "/usr/sbin and /usr/local/sbin; "
        "install the package squashfuse, or set mount.engine to \"berth\"");
}

ProgramServer start_program_server(const std::string& program, const ProgramServerOptions& options, int folder,
                                   const std::string& name) {
    auto&& [ours, its] = make_channel();
    Fd mount_point = sys::open_at(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    pid_t self = ::getpid();
    ProgramServer out;
    // No signal at its end: whoever waits for any child waits for commands.
    out.supervisor = Pid(static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr)));
    if (out.supervisor.get() < 0) throw SysError(serving);
    if (out.supervisor.get() == 0) {
        ours.reset();
        be_supervisor({program, options, mount_point.get(), std::move(its)}, self);
    }
    its.reset();
    out.end = std::move(ours);
    auto received = receive_message(out.end.get(), answer_ms);
    bool failed = received && plan::is(received->message, plan::MessageType::failure);
    if (failed || !received)
        throw Error(failed ? plan::decode_failure(received->message).line
                           : cat(serving, ": the process that starts it was killed"));
    out.program = static_cast<pid_t>(received->message.number("program", INT32_MAX));
    // Empty when it has ended already, which is then told.
    out.handle = Fd(static_cast<int>(syscall(SYS_pidfd_open, out.program, 0)));
    wait_for_answer(out, folder, name);
    return out;
}

bool end_program_server(ProgramServer& server, std::chrono::milliseconds timeout) {
    if (!server.supervisor) return true;
    syscall(SYS_pidfd_send_signal, server.handle.get(), SIGKILL, nullptr, 0);
    // It ends when it has waited for the program.
    if (server.supervisor.ends_within(timeout)) return true;
    server.supervisor.release();
    return false;
}

}  // namespace berth::mount
