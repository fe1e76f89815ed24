#include "runtime/oci/auth/credentials_search.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t file_limit = 1 << 20;
constexpr size_t answer_limit = 64 << 10;
constexpr std::chrono::seconds helper_time{30};

Fd input_file(const std::string& input) {
    Fd file(::memfd_create("berth-input", MFD_CLOEXEC));
    if (!file) throw SysError("asking for a login");
    sys::write_all(file.get(), input, "the input of a credential helper");
    ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

/// What `program`, which messages call `what`, says within half a minute.
HelperAnswer answer_of(const std::string& program, const std::vector<std::string>& arguments, const std::string& input,
                       const std::string& what) {
    Fd file = input_file(input);
    Child child(program, arguments, file.get());
    HelperAnswer out;
    for (auto end = Clock::now() + helper_time;;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd ready{child.output(), POLLIN, 0};
        if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0)
            throw Error(cat("asking for a login: ", what, " gave no answer in ", helper_time.count(), " s"));
        char buffer[4096];
        ssize_t got = ::read(child.output(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SysError(cat("asking ", what, " for a login"));
        if (got == 0) break;
        out.output.append(buffer, static_cast<size_t>(got));
        if (out.output.size() > answer_limit)
            throw Error(cat("asking for a login: the answer of ", what, " is too long"));
    }
    out.exit_code = child.wait();
    return out;
}

class Search {
  public:
    Search(const CredentialPlaces& places, const std::string& host, const std::string& repository,
           const std::string& user)
        : places_(places), host_(host), repository_(repository), user_(user) {}

    CredentialSearch run() {
        docker_file(places_.auth_file) || docker_file(places_.podman_file) ||
            docker_file(file_in(places_.docker_folder, "config.json")) ||
            enroot_file(file_in(places_.enroot_folder, ".credentials"));
        return std::move(out_);
    }

  private:
    static std::string file_in(const std::string& folder, const char* name) {
        return folder.empty() ? "" : cat(folder, "/", name);
    }
    std::optional<std::string> content_of(const std::string& file);
    bool docker_file(const std::string& file);
    bool enroot_file(const std::string& file);
    bool ask_helper(const std::string& name);
    bool choose(const std::vector<Login>& logins, const std::string& file = {});
    std::string value_of(const Login& login, const std::string& file) const;
    void looked(const std::string& place, const std::string& result) {
        out_.looked.push_back(cat(printable(place, 4096), " (", result, ")"));
    }

    const CredentialPlaces& places_;
    const std::string& host_;
    const std::string& repository_;
    const std::string& user_;
    CredentialSearch out_;
    bool others_write_ = false;  ///< to the file that was read last
};

std::optional<std::string> Search::content_of(const std::string& file) {
    if (file.empty()) return std::nullopt;
    // A FIFO must not stop the pull.
    Fd opened = sys::open_if_exists(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
    if (!opened) {
        looked(file, "no such file");
        return std::nullopt;
    }
    struct stat st = sys::stat_of(opened.get(), file);
    if (!S_ISREG(st.st_mode))
        throw Error(cat("reading the logins in ", printable(file, 4096), ": it is no regular file"));
    others_write_ = (st.st_mode & 022) != 0 || (st.st_uid != ::geteuid() && st.st_uid != 0);
    if ((st.st_mode & 077) != 0)
        out_.warnings.push_back(
            cat("warning: ", printable(file, 4096), " holds logins and others can read it; chmod 600 it"));
    return sys::read_all(opened.get(), file_limit, file);
}

bool Search::choose(const std::vector<Login>& logins, const std::string& file) {
    const Login* login = choose_login(logins, host_, repository_, user_);
    if (login == nullptr) return false;
    out_.found = login->credentials;
    if (!login->expression.empty()) out_.found.password = value_of(*login, file);
    return true;
}

bool Search::docker_file(const std::string& file) {
    auto text = content_of(file);
    if (!text) return false;
    LoginFile logins = parse_login_file(*text, file);
    auto helper = logins.helpers.find(host_);
    if (helper != logins.helpers.end() && ask_helper(helper->second)) return true;
    if (helper == logins.helpers.end() && !logins.store.empty() && ask_helper(logins.store)) return true;
    if (choose(logins.logins)) return true;
    looked(file, cat("nothing for ", user_.empty() ? "" : cat(printable(user_), "@"), printable(host_)));
    return false;
}

bool Search::ask_helper(const std::string& name) {
    std::string program = cat("docker-credential-", printable(name, 64));
    HelperAnswer answer = run_credential_helper(name, places_.path, "get", docker_key(host_));
    if (answer.exit_code != 0) {
        looked(program, cat("code ", answer.exit_code, ", as it has none for ", printable(host_)));
        return false;
    }
    Credentials found = parse_helper_answer(answer.output, program);
    if (found.empty() || (!user_.empty() && found.user != user_)) return false;
    out_.found = std::move(found);
    return true;
}

bool Search::enroot_file(const std::string& file) {
    auto text = content_of(file);
    if (!text) return false;
    std::vector<std::string> unusable;
    if (choose(parse_netrc(*text, file, unusable), file)) return true;
    bool half = std::find(unusable.begin(), unusable.end(), host_) != unusable.end();
    looked(file, half ? cat("its entry for ", printable(host_), " has no plain user, or no password")
                      : cat("nothing for ", printable(host_)));
    return false;
}

/// A shell's word for it, as Enroot has it evaluated. What is in the file may be a secret and is not told.
std::string Search::value_of(const Login& login, const std::string& file) const {
    std::string what = cat("reading the login for ", printable(host_), " in ", printable(file, 4096));
    if (!places_.commands)
        throw Error(cat(what, ": its password is a variable or a command, which are not evaluated; write the password "
                        "itself, use berth login, or ask the site for registry.auth_commands = true"));
    if (others_write_)
        throw Error(cat(what, ": its password is a command, and others can write to the file; chmod 600 it"));
    HelperAnswer answer = answer_of("/bin/sh", {"-c", "echo " + login.expression}, "", cat("the command in ", file));
    std::string password(trimmed(answer.output));
    if (answer.exit_code != 0 || password.empty() || password.find_first_of("\n\r") != password.npos)
        throw Error(cat(what, ": ", answer.exit_code != 0 ? cat("its command ended with code ", answer.exit_code)
                                    : password.empty()    ? "its variable or command gives nothing"
                                                          : "its command gives more than a line",
                        "; try it in a shell, in a job without the variables of your login"));
    return password;
}

/// The program's path, from absolute folders only.
std::string helper_program(const std::string& name, const std::string& path) {
    if (!is_helper_name(name))
        throw Error(cat("asking for a login: \"", printable(name), "\" is no name of a credential helper"));
    for (const std::string& folder : split(path, ':')) {
        std::string program = cat(folder, "/docker-credential-", name);
        if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    }
    throw Error(cat("asking for a login: the program docker-credential-", name,
                    " is not in PATH=", printable(path, 1024), "; install it, or log in with another file"));
}

}  // namespace

HelperAnswer run_credential_helper(const std::string& name, const std::string& path, const std::string& verb,
                                   const std::string& input) {
    std::string program = helper_program(name, path);
    return answer_of(program, {verb}, input, program);
}

std::string CredentialSearch::explanation(const std::string& host) const {
    if (!found.empty() && found.source.empty()) return "check the user and the password";
    if (!found.empty())
        return cat("sent the login ", found.user.empty() ? "token" : cat("of ", printable(found.user)), " from ",
                   printable(found.source, 4096), "; berth login ", printable(host), " makes a new one");
    std::string places;
    for (const std::string& place : looked) places += cat(places.empty() ? "" : ", ", place);
    return cat("sent no login, there is none in ", places.empty() ? "any file" : places,
               "; check the name, or try berth login ", printable(host));
}

CredentialSearch find_credentials(const CredentialPlaces& places, const std::string& host,
                                  const std::string& repository, const std::string& user) {
    return Search(places, registry_host(host), repository, user).run();
}

}  // namespace berth::oci
