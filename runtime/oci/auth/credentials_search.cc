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

/// The program's path, from absolute folders only; empty when there is none.
std::string helper_program(const std::string& name, const std::string& path) {
    if (!is_helper_name(name)) return {};
    for (const std::string& folder : split(path, ':')) {
        std::string program = cat(folder, "/docker-credential-", name);
        if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    }
    return {};
}

/// Why a file or program has no login: in words that stand in brackets behind its name.
class Useless : public Error {
  public:
    using Error::Error;
};

class Search {
  public:
    Search(const CredentialPlaces& places, const LoginQuery& query)
        : places_(places), query_(query), host_(registry_host(query.host)) {}

    CredentialSearch run() {
        docker_file(places_.auth_file) || docker_file(places_.podman_file) || docker_file(places_.run_file) ||
            docker_file(places_.config_file) ||
            docker_file(file_in(places_.docker_folder, "config.json")) ||
            enroot_file(file_in(places_.enroot_folder, ".credentials"));
        return std::move(out_);
    }

  private:
    static std::string file_in(const std::string& folder, const char* name) {
        return folder.empty() ? "" : cat(folder, "/", name);
    }
    template <typename Read>
    bool read(const std::string& place, const Read& read_login);
    std::optional<std::string> content_of(const std::string& file);
    bool docker_file(const std::string& file);
    bool login_in(const std::string& text, const std::string& file);
    bool enroot_file(const std::string& file);
    bool login_of_enroot(const std::string& text, const std::string& file);
    bool ask_helper(const std::string& name, const std::string& file);
    bool answer_of_helper(const std::string& name, const std::string& program);
    bool take(const Login* login);
    std::string value_of(const Login& login) const;
    std::string evaluated(const std::string& expression, const std::string& file) const;
    bool is_used_up(const std::string& source, const std::string& user);
    void warn_of_readers(const std::string& file, const std::vector<Login>& logins) {
        if (others_read_ && !logins.empty())
            out_.warnings.push_back(
                cat(printable(file, 4096), " (it holds logins, and others can read it; chmod 600 it)"));
    }
    std::string who() const {
        return cat(query_.user.empty() ? "" : cat(printable(query_.user), "@"), printable(host_));
    }
    void looked(const std::string& place, const std::string& result) {
        out_.looked.push_back(cat(printable(place, 4096), " (", result, ")"));
    }
    /// As looked(), and somebody may want to mend it.
    void useless(const std::string& place, const std::string& result) {
        looked(place, result);
        out_.warnings.push_back(out_.looked.back());
    }

    const CredentialPlaces& places_;
    const LoginQuery& query_;
    const std::string host_;
    CredentialSearch out_;
    std::vector<std::string> read_;  ///< two variables may name one file
    bool others_read_ = false;       ///< the file that was read last
    bool others_write_ = false;      ///< to it
};

/// What is wrong with one place is no reason to pass over the next one.
template <typename Read>
bool Search::read(const std::string& place, const Read& read_login) try {
    return read_login();
} catch (const Useless& problem) {
    useless(place, problem.what());
    return false;
} catch (const SysError& problem) {
    useless(place, reason(problem.number()));
    return false;
} catch (const Error& problem) {
    useless(place, problem.what());
    return false;
}

std::optional<std::string> Search::content_of(const std::string& file) {
    // A FIFO must not stop the pull.
    Fd opened = sys::open_if_exists(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
    if (!opened) {
        looked(file, "no such file");
        return std::nullopt;
    }
    struct stat st = sys::stat_of(opened.get(), file);
    if (!S_ISREG(st.st_mode)) throw Useless("it is no regular file");
    if (file == places_.run_file && st.st_uid != ::geteuid() && st.st_uid != 0)
        throw Useless("it belongs to another user");
    if (st.st_size > static_cast<off_t>(file_limit)) throw Useless("it is too large for a file of logins");
    others_write_ = (st.st_mode & 022) != 0 || (st.st_uid != ::geteuid() && st.st_uid != 0);
    others_read_ = (st.st_mode & 044) != 0;
    return sys::read_all(opened.get(), file_limit, file);
}

/// A login that is there and not to be sent.
bool Search::is_used_up(const std::string& source, const std::string& user) {
    auto has = [&](const std::vector<std::string>& list) {
        return std::find(list.begin(), list.end(), source) != list.end();
    };
    if (has(query_.refused)) {
        looked(source, "its login was refused");
        out_.refused.push_back({user, "", "", "", source});
    } else if (has(query_.unfit)) {
        looked(source, "its login is of another kind than what is asked for");
    } else {
        return false;
    }
    return true;
}

/// True when it is one.
bool Search::take(const Login* login) {
    if (login == nullptr) return false;
    Credentials found = login->credentials;
    if (!login->expression.empty()) found.password = value_of(*login);
    out_.found = std::move(found);
    return true;
}

bool Search::docker_file(const std::string& file) {
    if (file.empty() || std::find(read_.begin(), read_.end(), file) != read_.end()) return false;
    read_.push_back(file);
    return read(file, [&] {
        auto text = content_of(file);
        return text && login_in(*text, file);
    });
}

bool Search::login_in(const std::string& text, const std::string& file) {
    if (trimmed(text).empty()) throw Useless("it is empty");
    LoginFile logins;
    try {
        logins = parse_login_file(text, file);
    } catch (const Error&) {
        throw Useless("it is not the JSON that docker and podman write");
    }
    warn_of_readers(file, logins.logins);
    auto helper = logins.helpers.find(host_);
    const std::string& name = helper != logins.helpers.end() ? helper->second : logins.store;
    const Login* login = choose_login(logins.logins, host_, query_.repository, query_.user);
    // A file that came from another machine names its programs; the login in it is as good as there.
    bool needless = login != nullptr && helper_program(name, places_.path).empty();
    if (!name.empty() && !needless && ask_helper(name, file)) return true;
    if (login != nullptr && is_used_up(file, login->credentials.user)) return false;
    if (take(login)) return true;
    if (std::find(logins.unusable.begin(), logins.unusable.end(), host_) != logins.unusable.end())
        throw Useless(cat("its entry for ", printable(host_), " cannot be understood"));
    looked(file, cat("nothing for ", who()));
    return false;
}

bool Search::ask_helper(const std::string& name, const std::string& file) {
    std::string program = cat("docker-credential-", printable(name, 64));
    if (is_used_up(program, query_.user)) return false;
    return read(cat(program, " of ", file), [&] { return answer_of_helper(name, program); });
}

bool Search::enroot_file(const std::string& file) {
    if (file.empty()) return false;
    return read(file, [&] {
        auto text = content_of(file);
        return text && login_of_enroot(*text, file);
    });
}

/// The entry for HOST:PORT, else that for HOST, as netrc has it.
bool Search::login_of_enroot(const std::string& text, const std::string& file) {
    std::vector<std::string> unusable;
    std::vector<Login> logins = parse_netrc(text, file, unusable);
    warn_of_readers(file, logins);
    const Login* exact = choose_login(logins, host_, query_.repository, query_.user);
    std::string host = host_without_port(host_);
    const Login* direct = host.empty() ? nullptr : choose_login(logins, host, query_.repository, query_.user);
    if (const Login* one = exact != nullptr ? exact : direct;
        one != nullptr && is_used_up(file, one->credentials.user))
        return false;
    if (take(exact)) return true;
    bool half = std::find(unusable.begin(), unusable.end(), host_) != unusable.end();
    if (half) throw Useless(cat("its entry for ", printable(host_), " has no plain user, or no password"));
    if (direct != nullptr && query_.direct) {
        take(direct);
        out_.found.direct_only = true;
        return true;
    }
    looked(file, direct == nullptr ? cat("nothing for ", who())
                                   : cat("its entry for ", printable(host),
                                         " is sent by TLS and Basic alone; write one for ", printable(host_)));
    return false;
}

/// What is in the file may be a secret and is not told.
std::string Search::value_of(const Login& login) const {
    auto name = variable_name(login.expression);
    if (!name && !places_.commands)
        throw Useless(cat("the password for ", printable(login.host),
                          " is a command, which is not run; write the password itself, use berth login, or ask the "
                          "site for registry.auth_commands = true"));
    if (others_write_)
        throw Useless(cat("the password for ", printable(login.host),
                          " is a variable or a command, and others can write to the file; chmod 600 it"));
    std::string password;
    if (name)
        password = places_.variable ? places_.variable(*name).value_or("") : "";
    else
        password = evaluated(login.expression, login.credentials.source);
    bool is_line = password.find_first_of("\n\r") == password.npos;
    if (password.empty() || !is_line)
        throw Useless(cat("the ", name ? "variable" : "command", " that is the password for ", printable(login.host),
                          name && is_line ? " is not set here" : is_line ? " gives nothing" : " has more than a line"));
    return password;
}

/// A shell's word for it, as Enroot has it evaluated.
std::string Search::evaluated(const std::string& expression, const std::string& file) const {
    HelperAnswer answer = answer_of("/bin/sh", {"-c", "echo " + expression}, "", cat("the command in ", file));
    if (answer.exit_code != 0)
        throw Useless(cat("the command that is the password for ", printable(host_), " ended with code ",
                          answer.exit_code, "; try it in a shell, in a job without the variables of your login"));
    return std::string(trimmed(answer.output));
}

bool Search::answer_of_helper(const std::string& name, const std::string& program) {
    if (!is_helper_name(name)) throw Useless("that is no name of a credential helper");
    if (helper_program(name, places_.path).empty())
        throw Useless(cat("there is no such program in PATH=", printable(places_.path, 1024)));
    HelperAnswer answer = run_credential_helper(name, places_.path, "get", docker_key(host_));
    if (answer.exit_code != 0) {
        // By docker's protocol. The rest of the answer may be a secret.
        if (!answer.output.starts_with("credentials not found"))
            throw Useless(cat("it ended with code ", answer.exit_code));
        looked(program, cat("code ", answer.exit_code, ", as it has none for ", printable(host_)));
        return false;
    }
    Credentials found;
    try {
        found = parse_helper_answer(answer.output, program);
    } catch (const Error&) {
        throw Useless("its answer is not the JSON that docker wants");
    }
    if (found.empty() || (!query_.user.empty() && found.user != query_.user)) {
        looked(program, cat("nothing for ", who()));
        return false;
    }
    out_.found = std::move(found);
    return true;
}

}  // namespace

HelperAnswer run_credential_helper(const std::string& name, const std::string& path, const std::string& verb,
                                   const std::string& input) {
    if (!is_helper_name(name))
        throw Error(cat("asking for a login: \"", printable(name), "\" is no name of a credential helper"));
    std::string program = helper_program(name, path);
    if (program.empty())
        throw Error(cat("asking for a login: the program docker-credential-", name,
                        " is not in PATH=", printable(path, 1024), "; install it, or log in with another file"));
    return answer_of(program, {verb}, input, program);
}

std::string login_explanation(const std::string& host, const std::vector<Credentials>& sent,
                              const CredentialSearch& search) {
    auto list = [](const std::vector<std::string>& words, const char* between) {
        std::string out;
        for (const std::string& word : words) out += cat(out.empty() ? "" : between, word);
        return out;
    };
    if (sent.size() == 1 && sent[0].source.empty()) return "check the user and the password";
    std::vector<Credentials> all;
    for (const Credentials& login : search.refused)
        if (std::none_of(sent.begin(), sent.end(), [&](const Credentials& o) { return o.source == login.source; }))
            all.push_back(login);
    all.insert(all.end(), sent.begin(), sent.end());
    if (all.empty() && search.looked.empty())
        return cat("sent no login; check the name, or try berth login ", printable(host));
    if (all.empty())
        return cat("sent no login, there is none in ", list(search.looked, ", "),
                   "; check the name, or try berth login ", printable(host));
    std::vector<std::string> logins;
    for (const Credentials& login : all)
        logins.push_back(cat(login.user.empty() ? "token" : cat("of ", printable(login.user)), " from ",
                             printable(login.source, 4096)));
    return cat("sent the login ", list(logins, ", then that "),
               search.warnings.empty() ? "" : cat("; passed over ", list(search.warnings, ", ")), "; berth login ",
               printable(host), " makes a new one");
}

CredentialSearch find_credentials(const CredentialPlaces& places, const LoginQuery& query) {
    return Search(places, query).run();
}

}  // namespace berth::oci
