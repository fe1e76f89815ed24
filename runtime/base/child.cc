#include "runtime/base/child.hh"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

/// posix_spawn's two records, freed together.
struct SpawnSettings {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;

    SpawnSettings(int input, int output, int errors) {
        posix_spawn_file_actions_init(&files);
        if (input >= 0)
            posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
        else
            posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        if (errors >= 0) posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
        posix_spawnattr_init(&attributes);
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnSettings() {
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
};

}  // namespace

Child::Child(const std::string& program, const std::vector<std::string>& arguments, int input, int errors,
             const std::vector<std::string>* environment) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError(cat("starting ", program));
    output_ = Fd(ends[0]);
    Fd writing(ends[1]);
    std::vector<char*> argv{const_cast<char*>(program.c_str())}, variables;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (environment)
        for (const std::string& entry : *environment) variables.push_back(const_cast<char*>(entry.c_str()));
    variables.push_back(nullptr);
    SpawnSettings settings(input, writing.get(), errors);
    pid_t pid = -1;
    int number = posix_spawn(&pid, program.c_str(), &settings.files, &settings.attributes, argv.data(),
                             environment ? variables.data() : environ);
    if (number != 0) throw SysError(cat("starting ", program), number);
    pid_ = Pid(pid);
}

void Child::kill_or_leave(std::chrono::milliseconds patience) {
    pid_.send(SIGKILL);
    if (pid_ && !pid_.ends_within(patience)) pid_.release();
}

std::string silent_end(int code) {
    if (code <= 128 || code >= 128 + NSIG) return cat("ended with code ", code, " without a message");
    return cat("was killed by signal ", code - 128, " (", ::strsignal(code - 128), ")");
}

}  // namespace berth
