#include "runtime/container/named/save.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"

namespace berth {

namespace {

/// What a save may take to end when it is told to.
constexpr std::chrono::milliseconds patience = std::chrono::seconds(2);

/// Waits for the descriptor of the upper directory, and becomes berth-pull. Never returns.
[[noreturn]] void wait_and_save(Fd channel, const SavedContainer& container, const std::string& output) {
    // An interruption is the command's; whether there is anything to save is known after that.
    for (int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM}) ::signal(number, SIG_IGN);
    try {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto received = receive_message(channel.get());
        // Nobody asked for the file: it is never one that was saved.
        if (!received) ::_exit(exit_failure);
        if (received->descriptors.size() != 1) throw Error("what the container wrote did not come with the message");
        int upper = received->descriptors[0].get();
        if (::fcntl(upper, F_SETFD, 0) != 0) throw SysError("passing what the container wrote on to berth-pull");
        std::vector<std::string> words = save_arguments(container, upper, output, {"--force"});
        std::string program = pull_program();
        std::vector<char*> pointers{program.data()};
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        for (int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM}) ::signal(number, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execv(program.c_str(), pointers.data());
        throw SysError("starting " + program);
    } catch (const Error& error) {
        std::fprintf(stderr, "berth: saving the container: %s\n", error.what());
    }
    ::_exit(exit_failure);
}

}  // namespace

std::vector<std::string> save_arguments(const SavedContainer& container, int upper, const std::string& output,
                                        const std::vector<std::string>& flags) {
    const plan::ContainerRecord& record = container.record;
    std::vector<std::string> out{"save",         "--upper-fd", std::to_string(upper), "--name",
                                 container.name, "--output",   output};
    if (record.digest.empty())
        out.insert(out.end(), {"--image-file", record.image_file});
    else
        out.insert(out.end(), {"--store", container.store, "--digest", record.digest, "--reference", record.image});
    if (container.modes == plan::ImageModes::enroot) out.emplace_back("--enroot-modes");
    out.insert(out.end(), flags.begin(), flags.end());
    return out;
}

void check_save_folder(const std::string& output) {
    size_t slash = output.rfind('/');
    std::string folder = slash == output.npos ? "." : output.substr(0, slash + 1);
    if (::access(folder.c_str(), W_OK) != 0) {
        int number = errno;
        throw Error(cat("saving the container as ", printable(output, 4096),
                        ": the folder cannot be written to: ", reason(number)));
    }
}

Saver::Saver(const SavedContainer& container, const std::string& output, Fd words) {
    check_save_folder(output);
    auto&& [ours, its] = make_channel();
    // No signal at its end: whoever waits for any child waits for commands.
    process_ = Pid(static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr)));
    if (process_.get() < 0) throw SysError("starting what will save the container");
    if (process_.get() == 0) {
        ours.reset();
        if (words && ::dup2(words.get(), STDERR_FILENO) < 0) ::_exit(exit_failure);
        words.reset();
        wait_and_save(std::move(its), container, output);
    }
    channel_ = std::move(ours);
}

Saver::~Saver() {
    if (!process_) return;
    channel_.reset();
    // Where files always have names, only the program itself can take away what it has begun.
    process_.send(SIGTERM);
    process_.ends_within(patience);
}

void Saver::begin(int upper) {
    try {
        send_message(channel_.get(), {}, {upper});
    } catch (const SysError& error) {
        if (error.number() != EPIPE && error.number() != ECONNRESET) throw;
    }
}

bool Saver::wait() {
    int code = process_.wait();
    if (code > 128) throw Error(cat("saving the container: what writes the file was killed by signal ", code - 128));
    return code == 0;
}

}  // namespace berth
