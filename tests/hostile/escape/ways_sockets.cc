// By sockets: Berth's, Slurm's and those of the node's services.
#include <dirent.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <sstream>

#include "tests/hostile/escape/escape.hh"

namespace escape {

namespace {

/// The names of UNIX sockets of this network namespace (proc(5), /proc/net/unix); those without a path begin with @.
std::vector<std::string> unix_sockets() {
    std::vector<std::string> out;
    std::istringstream lines(text_of("/proc/net/unix"));
    for (std::string line; std::getline(lines, line);)
        if (size_t at = line.find_first_of("/@"); at != line.npos) out.push_back(line.substr(at));
    return out;
}

bool connects(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = name;
    if (path[0] == '@') path[0] = '\0';
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path[0] == '\0' ? 0 : 1));
    for (int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
        int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool out = connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0;
        close(fd);
        if (out) return true;
    }
    return false;
}

Result sockets_in_folders() {
    for (const std::string& name : unix_sockets())
        if (name[0] == '/' && connects(name)) return got("whoever listens at " + name);
    return refused();
}

/// Of those without a path only Berth's are looked for: the others are the node's network, which a container shares.
Result abstract_sockets() {
    // A process to try it on has such a name, where there is one.
    for (const std::string& name : unix_sockets()) {
        bool looked_for = name.find("berth") != name.npos || (is_control() && name.find("escape-control") != name.npos);
        if (name[0] == '@' && looked_for && connects(name)) return got("whoever listens at " + name);
    }
    return refused(ECONNREFUSED);
}

/// Folders of Berth's and Slurm's, in which their sockets and keys are.
Result folders_of_services() {
    const char* control = getenv("ESCAPE_CONTROL");
    for (const std::string& path :
         {std::string("/run/berth"), std::string("/var/run/berth"), std::string("/var/lib/berth"),
          std::string("/run/munge"), std::string("/var/spool/slurmd"),
          std::string("/run/user/") + std::to_string(getuid()), std::string("/run/dbus"),
          std::string("/run/docker.sock"), std::string("/run/containerd"), std::string("/run/podman"),
          std::string("/run/systemd"), std::string(control ? control : "/run/berth")})
        if (access(path.c_str(), F_OK) == 0) return got(path);
    return refused();
}

}  // namespace

std::vector<Way> ways_by_sockets() {
    return {
        {"sockets", "each UNIX socket with a path that the node has", "docker.sock in containers", Control::user,
         sockets_in_folders},
        {"abstract-sockets", "sockets of Berth's without a path", "CVE-2020-15257", Control::user, abstract_sockets},
        {"service-folders", "folders of Berth, Slurm, munge, D-Bus and other runtimes", "mounted /run", Control::user,
         folders_of_services},
    };
}

}  // namespace escape
