#include "runtime/pull/commands/login.hh"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <optional>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/auth/credentials_store.hh"
#include "runtime/pull/commands/arguments.hh"

namespace berth::pull {

namespace {

constexpr size_t answer_limit = 16 << 10;
constexpr char interrupt = '\x03';

/// A terminal that does not show what is typed, for a while. An interruption is a character meanwhile, or it would
/// leave the terminal blind.
class Unseen {
  public:
    explicit Unseen(int terminal) : terminal_(terminal) {
        if (::tcgetattr(terminal, &before_) != 0) throw SysError("asking for a password");
        termios quiet = before_;
        quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG);
        quiet.c_cc[VEOL] = interrupt;
        ::tcsetattr(terminal, TCSAFLUSH, &quiet);
    }
    ~Unseen() { ::tcsetattr(terminal_, TCSAFLUSH, &before_); }
    Unseen(const Unseen&) = delete;
    Unseen& operator=(const Unseen&) = delete;

  private:
    int terminal_;
    termios before_{};
};

std::string line_from(int fd) {
    std::string out;
    for (char c = 0; out.size() < answer_limit;) {
        ssize_t got = ::read(fd, &c, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SysError("asking for a login");
        if (c == interrupt) throw Error("login: stopped");
        if (got == 0 || c == '\n') break;
        out += c;
    }
    return out;
}

std::string asked(const std::string& question, bool unseen) {
    Fd terminal;
    try {
        terminal = sys::open_file("/dev/tty", O_RDWR | O_NOCTTY);
    } catch (const Error&) {
        throw Error("login: there is no terminal to ask on; use --user USER and --password-stdin");
    }
    std::string out;
    {
        // Before the question: who answers at once, a program for one, would be shown and then not heard.
        std::optional<Unseen> blind;
        if (unseen) blind.emplace(terminal.get());
        sys::write_all(terminal.get(), question, "the terminal");
        out = line_from(terminal.get());
    }
    if (!unseen) return out;
    sys::write_all(terminal.get(), "\n", "the terminal");
    return out;
}

std::string password_of_input() {
    std::string out = sys::read_all(STDIN_FILENO, answer_limit, "the password on standard input");
    while (out.ends_with('\n') || out.ends_with('\r')) out.pop_back();
    return out;
}

}  // namespace

std::string login(const std::string& registry, const std::string& user, bool password_from_input,
                  const oci::RegistryOptions& options, const oci::CredentialPlaces& places) {
    std::string host = oci::registry_host(registry);
    oci::Credentials login;
    login.user = !user.empty() ? user : asked(cat("User for ", printable(host), ": "), false);
    login.password = password_from_input
                         ? password_of_input()
                         : asked(cat("Password of ", printable(login.user), " for ", printable(host), ": "), true);
    if (login.user.empty() || login.user.find(':') != login.user.npos)
        throw Error(cat("login to ", printable(host), ": a user's name is not empty and has no colon"));
    if (login.password.empty()) throw Error(cat("login to ", printable(host), ": the password is empty"));
    oci::check_login(host, options, login);
    return cat("logged in to ", printable(host), " as ", printable(login.user), "; the login is kept in ",
               printable(oci::store_login(places, host, login), 4096));
}

std::string logout(const std::string& registry, const oci::CredentialPlaces& places) {
    std::string host = oci::registry_host(registry);
    if (!oci::erase_login(places, host))
        throw Error(cat("logout of ", printable(host), ": there is no login for it in ",
                        printable(places.docker_folder, 4096), "/config.json"));
    return cat("logged out of ", printable(host));
}

int keep_login(const Arguments& arguments) {
    plan::Site site = site_of(arguments);
    oci::CredentialPlaces places = credential_places(environment_of_this_process(), site);
    if (arguments.login.empty()) return std::cerr << logout(arguments.logout, places) << '\n', 0;
    oci::RegistryOptions options = registry_options(site, arguments.login);
    options.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    std::cerr << login(arguments.login, arguments.user, arguments.password_from_input, options, places) << '\n';
    return 0;
}

}  // namespace berth::pull
