#include "spank/task_prolog.hh"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

/// A runaway script must not fill the memory of the step.
constexpr size_t output_limit = 1 << 20;

pid_t start(const std::string& path, const std::vector<std::string>& environment, int output) {
    std::vector<char*> variables;
    for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
    variables.push_back(nullptr);
    char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    // As slurmstepd does: what it complains of is no command for the task.
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    pid_t pid = -1;
    int number = posix_spawn(&pid, path.c_str(), &files, nullptr, arguments, variables.data());
    posix_spawn_file_actions_destroy(&files);
    if (number != 0) throw SysError(cat("running the site's TaskProlog ", printable(path, 4096)), number);
    return pid;
}

std::string read_to_end(int fd) {
    std::string out;
    char buffer[4096];
    for (ssize_t size; (size = read(fd, buffer, sizeof buffer)) != 0;) {
        if (size < 0 && errno != EINTR) break;
        if (size > 0 && out.size() < output_limit) out.append(buffer, static_cast<size_t>(size));
    }
    return out;
}

std::string_view without_blanks(std::string_view text) {
    size_t start = text.find_first_not_of(" \t\r");
    return start == text.npos ? std::string_view() : text.substr(start);
}

}  // namespace

PrologOutput parse_prolog(std::string_view output) {
    PrologOutput out;
    // Slurm reads it as a C string.
    for (const std::string& line : split(output.substr(0, output.find('\0')), '\n')) {
        std::string_view rest = line;
        rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
        rest = without_blanks(rest);
        size_t equals = rest.find('=');
        if (line.starts_with("print "))
            out.text += cat(rest, '\n');
        else if (line.starts_with("export ") && equals != rest.npos && equals > 0)
            out.changes.push_back({std::string(trimmed(rest.substr(0, equals))), std::string(rest.substr(equals + 1))});
        else if (line.starts_with("unset ") && !rest.empty())
            out.changes.push_back({std::string(trimmed(rest)), std::nullopt});
    }
    return out;
}

PrologOutput run_prolog(const std::string& path, const std::vector<std::string>& environment) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw SysError("running the site's TaskProlog");
    Fd reading(ends[0]), writing(ends[1]);
    pid_t pid = start(path, environment, writing.get());
    writing.reset();
    std::string output = read_to_end(reading.get());
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code != 0)
        throw Error(cat("the site's TaskProlog ", printable(path, 4096), " failed with status ", code), code);
    return parse_prolog(output);
}

}  // namespace berth::spank
