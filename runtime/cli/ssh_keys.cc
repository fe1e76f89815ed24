#include "runtime/cli/ssh_keys.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/access.hh"
#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/lock.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"

namespace berth::cli {

namespace {

constexpr auto keygen_limit = std::chrono::seconds(60);

/// Its half may have been written by a process that was killed: it is made under another name first.
void make_key(const std::string& path, const char* comment) {
    const std::string fresh = path + ".new";
    ::unlink(fresh.c_str());
    ::unlink((fresh + ".pub").c_str());
    const char* search = std::getenv("PATH");
    std::string program = find_command("ssh-keygen", cat(search != nullptr ? search : "", ":/usr/bin"), "here");
    ProgramAnswer answer =
        run_program(program, {"-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", fresh}, "", keygen_limit);
    if (answer.code != 0)
        throw Error(cat("making the key ", path, " by ssh-keygen: ",
                        why_it_failed(answer, keygen_limit)));
    // The private one last: that it is there says that both are.
    if (::rename((fresh + ".pub").c_str(), (path + ".pub").c_str()) != 0 ||
        ::rename(fresh.c_str(), path.c_str()) != 0)
        throw SysError(cat("making the key ", path));
}

void write_known_hosts(const SshFiles& files) {
    std::string key = sys::read_file(files.host_key + ".pub"), line = cat(ssh_host_alias, " ", key);
    if (sys::may_access(files.known_hosts, F_OK) && sys::read_file(files.known_hosts) == line) return;
    const std::string fresh = files.known_hosts + ".new";
    Fd file = sys::open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), line, fresh);
    if (::rename(fresh.c_str(), files.known_hosts.c_str()) != 0) throw SysError(cat("writing ", files.known_hosts));
}

}  // namespace

void make_ssh_keys(const SshFiles& files) {
    sys::make_directories(files.folder, 0700);
    if (::chmod(files.folder.c_str(), 0700) != 0) throw SysError(cat("closing the folder ", files.folder));
    Fd file = sys::open_file(files.folder + "/lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    while (::flock(file.get(), LOCK_EX) != 0)
        if (errno != EINTR) throw SysError(cat("locking ", files.folder));
    Lock lock(std::move(file));
    if (!sys::may_access(files.host_key, F_OK)) make_key(files.host_key, "berth-host");
    if (!sys::may_access(files.user_key, F_OK)) make_key(files.user_key, "berth");
    write_known_hosts(files);
}

}  // namespace berth::cli
