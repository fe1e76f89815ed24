#include "runtime/oci/auth/credentials_store.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"

namespace berth::oci {

// Keeps the order of the keys.
using nlohmann::ordered_json;

namespace {

ordered_json parsed(const std::string& config, const std::string& file) {
    // Understood by the strict reader first, whose error quotes nothing.
    if (!trimmed(config).empty()) parse_login_file(config, file);
    return trimmed(config).empty() ? ordered_json::object() : ordered_json::parse(config);
}

/// Removes the entries of all the host's names; true when there was one.
bool remove_entries(ordered_json& document, const std::string& host) {
    auto auths = document.find("auths");
    if (auths == document.end()) return false;
    std::vector<std::string> keys;
    for (const auto& [key, entry] : auths->items()) {
        size_t path = key.find('/', key.find("://") == key.npos ? 0 : key.find("://") + 3);
        bool whole = path == key.npos || key.find("/v1", path) == path || key.find("/v2", path) == path ||
                     path + 1 == key.size();
        if (whole && registry_host(key) == host) keys.push_back(key);
    }
    for (const std::string& key : keys) auths->erase(key);
    return !keys.empty();
}

std::string text_of(const ordered_json& document) { return document.dump(1, '\t') + "\n"; }

std::string config_file(const CredentialPlaces& places) {
    if (places.docker_folder.empty()) throw Error("storing a login: neither HOME nor DOCKER_CONFIG says where");
    return places.docker_folder + "/config.json";
}

std::string content_of(const std::string& file) {
    Fd opened = sys::open_if_exists(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
    return opened ? sys::read_all(opened.get(), 1 << 20, file) : std::string();
}

/// The name of the program that keeps the host's login, or empty.
std::string helper_for(const std::string& config, const std::string& file, const std::string& host) {
    if (trimmed(config).empty()) return {};
    LoginFile logins = parse_login_file(config, file);
    auto helper = logins.helpers.find(host);
    return helper != logins.helpers.end() ? helper->second : logins.store;
}

void replace_file(const std::string& file, const std::string& text) {
    // A link into a folder of settings stays one.
    char* real = ::realpath(file.c_str(), nullptr);
    std::string target = real != nullptr ? real : file;
    std::free(real);
    std::string name = target + ".XXXXXX";
    Fd out(::mkostemp(name.data(), O_CLOEXEC));  // mode 0600
    if (!out) throw SysError(cat("storing a login in ", file));
    try {
        sys::write_all(out.get(), text, name);
        if (!sys::synced(out.get()) || ::rename(name.c_str(), target.c_str()) != 0)
            throw SysError(cat("storing a login in ", file));
    } catch (const Error&) {
        ::unlink(name.c_str());
        throw;
    }
}

void run_helper(const std::string& name, const CredentialPlaces& places, const char* verb, const std::string& input) {
    HelperAnswer answer = run_credential_helper(name, places.path, verb, input);
    if (answer.exit_code != 0)
        throw Error(cat("docker-credential-", name, " ", verb, ": failed with code ", answer.exit_code,
                        "; run it by hand to see why"));
}

}  // namespace

std::string with_login(const std::string& config, const std::string& file, const std::string& host,
                       const Credentials& login, bool elsewhere) {
    ordered_json document = parsed(config, file);
    remove_entries(document, host);
    ordered_json entry = ordered_json::object();
    if (!elsewhere) entry["auth"] = encode_base64(cat(login.user, ":", login.password));
    document["auths"][docker_key(host)] = std::move(entry);
    return text_of(document);
}

std::optional<std::string> without_login(const std::string& config, const std::string& file, const std::string& host) {
    ordered_json document = parsed(config, file);
    if (!remove_entries(document, host)) return std::nullopt;
    return text_of(document);
}

std::string store_login(const CredentialPlaces& places, const std::string& host, const Credentials& login) {
    std::string file = config_file(places);
    std::string config = content_of(file);
    std::string helper = helper_for(config, file, host);
    if (!helper.empty()) {
        ordered_json input = {{"ServerURL", docker_key(host)}, {"Username", login.user}, {"Secret", login.password}};
        run_helper(helper, places, "store", input.dump());
    }
    sys::make_directories(places.docker_folder, 0700);
    replace_file(file, with_login(config, file, host, login, !helper.empty()));
    return helper.empty() ? file : "docker-credential-" + helper;
}

bool erase_login(const CredentialPlaces& places, const std::string& host) {
    std::string file = config_file(places);
    std::string config = content_of(file);
    std::string helper = helper_for(config, file, host);
    auto rest = without_login(config, file, host);
    if (!helper.empty()) run_helper(helper, places, "erase", docker_key(host));
    if (rest) replace_file(file, *rest);
    return rest || !helper.empty();
}

}  // namespace berth::oci
