#include "tests/kernel/programs.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/fixtures/processes.hh"

namespace berth::kernel_test {

void become(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(errno == ENOENT ? 127 : 126);
}

std::string output_of(const std::vector<std::string>& command) {
    Beside program(command);
    std::string text = sys::read_all(program.output(), 1 << 20, "the output");
    int status = program.wait();
    return cat(text, "|", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

int code_of(int status) { return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status); }

void read_until(int fd, std::string& all, const std::string& text) {
    size_t from = all.size();
    char buffer[4096];
    while (all.find(text, from) == all.npos) {
        pollfd wait{fd, POLLIN, 0};
        if (::poll(&wait, 1, 10'000) != 1)
            throw Error(cat("waited in vain for '", text, "' after: ", printable(all, 10'000)));
        ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got <= 0) return;
        all.append(buffer, static_cast<size_t>(got));
    }
}

Beside::Beside(const std::vector<std::string>& command, const std::function<void()>& before) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
    output_ = Fd(ends[0]);
    Fd writing(ends[1]);
    child_ = fixtures::forked();
    if (child_ != 0) return;
    if (before) before();
    ::dup2(writing.get(), 1);
    become(command);
}

Beside::~Beside() {
    if (child_ <= 0) return;
    send(SIGKILL);
    ::waitpid(child_, nullptr, 0);
}

void Beside::send(int signal) const { fixtures::kill_one(child_, signal); }

int Beside::wait(int options) {
    int status = 0;
    ::waitpid(child_, &status, options);
    if (WIFEXITED(status) || WIFSIGNALED(status)) child_ = -1;
    return status;
}

}  // namespace berth::kernel_test
