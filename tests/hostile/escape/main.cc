// An image's only program: tries the known ways out of a container, and says of each `refused` or `got it`.
//
//   escape [NAME...]      tries all ways, or these; ends with 1 when one of them got anything
//   escape within [NAME...]  the same as root of user and mount namespaces of its own, where a container lets it
//   escape list           a line for each: name, where it is seen to succeed, what is tried, where it is known from
//   escape victim FOLDER  a process of the node to try them on; prints its number and stays
//   escape gained         ends with 0 when it has rights which its parent had not
//
// ESCAPE_SECRET is the path of a file that only the node has, and ESCAPE_TOKEN what is in it.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

char token_in_memory[256];

std::string variable(const char* name) {
    const char* value = getenv(name);
    return value ? value : "";
}

}  // namespace

Result refused(int number) {
    return {number == ENOSYS ? Result::Kind::absent : Result::Kind::refused, strerror(number)};
}
Result got(std::string what) { return {Result::Kind::got, std::move(what)}; }

Result taken(long result) {
    if (result >= 0) return got("the kernel did it");
    for (int number : {EPERM, EACCES, ENOSYS, EAFNOSUPPORT, ENODEV, ENOTTY})
        if (errno == number) return refused();
    return got(std::string("the kernel took the call: ") + strerror(errno));
}

std::string secret_path() { return variable("ESCAPE_SECRET"); }
std::string token() { return variable("ESCAPE_TOKEN"); }
char* place_of_token() { return token_in_memory; }

bool is_control() { return getenv("ESCAPE_CONTROL") != nullptr; }

bool has_token(int fd) {
    char text[256] = {};
    return !token().empty() && pread(fd, text, sizeof text - 1, 0) > 0 && strstr(text, token().c_str()) != nullptr;
}

bool file_has_token(const std::string& path) {
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool out = has_token(fd);
    close(fd);
    return out;
}

bool finds_secret(int root) {
    int fd = openat(root, secret_path().substr(1).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool out = has_token(fd);
    close(fd);
    return out;
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> out;
    DIR* folder = opendir(path.c_str());
    if (!folder) return out;
    while (const dirent* entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) out.emplace_back(entry->d_name);
    closedir(folder);
    return out;
}

std::vector<pid_t> others() {
    std::vector<pid_t> out;
    for (const std::string& name : names_in("/proc")) {
        auto pid = static_cast<pid_t>(atol(name.c_str()));
        if (pid > 0 && pid != getpid() && getsid(pid) != getsid(0)) out.push_back(pid);
    }
    std::sort(out.begin(), out.end());
    return out;
}

std::string text_of(const std::string& path) {
    std::string out;
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char buffer[4096];
    for (ssize_t size; fd >= 0 && (size = read(fd, buffer, sizeof buffer)) > 0 && out.size() < (4U << 20);)
        out.append(buffer, static_cast<size_t>(size));
    if (fd >= 0) close(fd);
    return out;
}

std::string scratch() {
    static const std::string path = [] {
        for (std::string name : {"/tmp/escape-XXXXXX", "/dev/shm/escape-XXXXXX", "./escape-XXXXXX"})
            if (mkdtemp(name.data())) return name;
        return std::string("/tmp");
    }();
    return path;
}

Result in_child(const std::function<Result()>& attempt) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return refused();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(10);
        Result result = attempt();
        std::string text = std::to_string(static_cast<int>(result.kind)) + result.what;
        _exit(write(ends[1], text.data(), text.size()) < 0);
    }
    close(ends[1]);
    char text[512] = {};
    ssize_t size = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    // A processor or kernel without the way in that is tried.
    if (size <= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) return refused(ENOSYS);
    if (size <= 0) return {Result::Kind::refused, "it was killed"};
    return {static_cast<Result::Kind>(text[0] - '0'), text + 1};
}

namespace {

std::vector<Way> all_ways() {
    std::vector<Way> out;
    for (auto* part : {ways_by_paths, ways_by_processes, ways_by_mounts, ways_by_privileges, ways_by_the_kernel,
                       ways_by_sockets})
        for (const Way& way : part()) out.push_back(way);
    return out;
}

const char* word_of(Control control) {
    return control == Control::user ? "user" : control == Control::root ? "root" : "none";
}

int list() {
    for (const Way& way : all_ways())
        printf("%s\t%s\t%s\t%s\n", way.name, word_of(way.control), way.what, way.known);
    return 0;
}

int try_ways(int count, char** names) {
    bool out = false;
    int tried = 0;
    // Each process of its own session is none of the `others`.
    setsid();
    for (const Way& way : all_ways()) {
        bool wanted =
            count == 0 || std::any_of(names, names + count, [&](char* name) { return !strcmp(name, way.name); });
        if (!wanted) continue;
        Result result = in_child(way.attempt);
        const char* words[] = {"refused", "got it", "absent"};
        printf("%s: %s (%s)\n", way.name, words[static_cast<int>(result.kind)], result.what.c_str());
        fflush(stdout);
        out = out || result.kind == Result::Kind::got;
        ++tried;
    }
    printf("tried %d\n", tried);
    return out ? 1 : tried > 0 ? 0 : 2;
}

int listen_at(const std::string& name, bool abstract) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + (abstract ? 1 : 0), sizeof address.sun_path - 2);
    auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
    return bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 ? listen(fd, 8) : -1;
}

/// A process with something to take: the node's root as its root and as descriptors 8, the secret as 9 and in memory, a
/// terminal, a socket.
int be_victim(const std::string& folder) {
    setsid();
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    token().copy(token_in_memory, sizeof token_in_memory - 1);
    int root = open("/", O_RDONLY), secret = open(secret_path().c_str(), O_RDWR),
        terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (dup2(root, 8) != 8 || dup2(secret, 9) != 9 || terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        return 2;
    std::string path = folder + "/socket";
    unlink(path.c_str());
    if (listen_at(path, false) != 0 || listen_at("escape-control-" + std::to_string(getpid()), true) != 0) return 2;
    if (chdir("/") != 0) return 2;
    printf("victim %d\n", static_cast<int>(getpid()));
    fflush(stdout);
    for (;;) pause();
}

/// Compares this process with what its parent says of itself.
int gained() {
    auto line = [](const std::string& path, const char* word) {
        std::string text = text_of(path);
        size_t at = text.find(word);
        return at == text.npos ? std::string() : text.substr(at, text.find('\n', at) - at);
    };
    std::string parent = "/proc/" + std::to_string(getppid()) + "/status";
    bool more = geteuid() != getuid() || line("/proc/self/status", "CapEff") != line(parent, "CapEff");
    return more ? 0 : 1;
}

}  // namespace

}  // namespace escape

namespace escape {

namespace {

bool put(const char* path, const std::string& text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool out = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (fd >= 0) close(fd);
    return out;
}

bool enters_own_namespaces() {
    std::string uid = std::to_string(getuid()), gid = std::to_string(getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/setgroups", "deny") &&
           put("/proc/self/uid_map", "0 " + uid + " 1") && put("/proc/self/gid_map", "0 " + gid + " 1") &&
           setenv("ESCAPE_WITHIN", "1", 1) == 0;
}

}  // namespace

}  // namespace escape

int main(int argc, char** argv) {
    using namespace escape;
    signal(SIGPIPE, SIG_IGN);
    std::string word = argc > 1 ? argv[1] : "";
    if (word == "list") return list();
    if (word == "gained") return gained();
    if (word == "victim" && argc > 2) return be_victim(argv[2]);
    if (word != "within") return try_ways(argc - 1, argv + 1);
    if (enters_own_namespaces()) return try_ways(argc - 2, argv + 2);
    perror("making namespaces of its own");
    return 3;
}
