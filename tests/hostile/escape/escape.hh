// Ways out of a container, each an attempt that says whether it got anything.
#pragma once
#include <sys/types.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

namespace escape {

/// What an attempt came to. `absent`: the kernel has nothing of the kind, so that nothing was tried.
struct Result {
    enum class Kind { refused, got, absent } kind;
    std::string what;
};

Result refused(int number = errno);
Result got(std::string what);

/// For system calls that only the privileged may make: got when the kernel took the call and went on to look at its
/// arguments, whatever it thought of them.
Result taken(long result);

/// Where an attempt is seen to succeed.
enum class Control {
    user,   ///< outside of containers, as the user
    root,   ///< as root, in a plain chroot
    none,   ///< nowhere: the program cannot show it, see Way::what
};

struct Way {
    const char* name;
    const char* what;   ///< one line: what is tried
    const char* known;  ///< where it is known from
    Control control;
    Result (*attempt)();
};

std::vector<Way> ways_by_paths();
std::vector<Way> ways_by_processes();
std::vector<Way> ways_by_mounts();
std::vector<Way> ways_by_privileges();
std::vector<Way> ways_by_the_kernel();
std::vector<Way> ways_by_sockets();

/// The secret of the node: a file that no container has (ESCAPE_SECRET), and what is in it (ESCAPE_TOKEN).
std::string secret_path();
std::string token();
/// Outside of containers, where the attempts must succeed (ESCAPE_CONTROL).
bool is_control();

/// True when the secret can be read in `root`, a directory that may be the node's root.
bool finds_secret(int root);
/// True when the open file has the secret.
bool has_token(int fd);
/// The same for a path. False where there is none.
bool file_has_token(const std::string& path);

/// Where this program's own data is in memory: the same place in each process of it.
char* place_of_token();

/// Processes that this program did not start, lowest first.
std::vector<pid_t> others();

/// Runs the attempt in a child, which may change what it is.
Result in_child(const std::function<Result()>& attempt);

/// A directory to write to.
std::string scratch();

/// What is in a file of /proc, or nothing.
std::string text_of(const std::string& path);

/// The names in a directory.
std::vector<std::string> names_in(const std::string& path);

}  // namespace escape
