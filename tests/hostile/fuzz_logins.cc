// Files and programs that hold logins: docker's JSON, Enroot's netrc lines, the answer of a credential helper. No error
// may repeat their content.
#include <algorithm>
#include <functional>
#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/oci/auth/credentials.hh"
#include "runtime/oci/auth/credentials_store.hh"
#include "runtime/oci/auth/login_history.hh"
#include "tests/hostile/target.hh"

namespace {

std::string error_of(const std::function<void()>& parse) {
    try {
        parse();
    } catch (const berth::Error& error) {
        return error.what();
    }
    return {};
}

/// Fails when an error is another one than that for a text without secrets.
void check_silent(std::string_view input, void (*parse)(std::string_view)) {
    std::string error = error_of([&] { parse(input); });
    if (!error.empty() && error != error_of([&] { parse("["); }))
        throw std::logic_error("an error tells of the content of a file of logins");
}

/// docker's file with a login more, and without it again. An error has none of the password, as of the file.
void change_file(std::string_view input) {
    using namespace berth::oci;
    check_silent(input, [](std::string_view text) {
        Credentials login_of_u;
        login_of_u.user = "u";
        login_of_u.password = "p";
        std::string with = with_login(std::string(text), "F", "registry.example", login_of_u, false);
        const auto logins = parse_login_file(with, "F").logins;
        bool found = std::any_of(logins.begin(), logins.end(), [](const Login& login) {
            return login.host == "registry.example" && login.path.empty() && login.credentials.user == "u" &&
                   login.credentials.password == "p";
        });
        berth::hostile::must(found, "a login that is stored is not found");
        auto without = without_login(with, "F", "registry.example");
        berth::hostile::must(without && !without_login(*without, "F", "registry.example"), "a login cannot be removed");
    });
}

void run(std::string_view input) {
    using namespace berth::oci;
    change_file(input);
    check_silent(input, [](std::string_view text) {
        LoginFile file = parse_login_file(text, "F");
        for (const Login& login : file.logins)
            choose_login(file.logins, login.host, login.path + "/x", login.credentials.user);
    });
    check_silent(input, [](std::string_view text) { parse_helper_answer(text, "P"); });
    std::vector<std::string> unusable;
    parse_netrc(input, "F", unusable);
    is_helper_name(input);
    if (auto name = variable_name(input))
        berth::hostile::must(input == "$" + *name || input == "${" + *name + "}", "a variable is more than its name");
    if (auto refused = parse_refused_login(input))
        berth::hostile::must(word_of(*refused) == input, "a login that was refused is told in other words");
    docker_key(registry_host(input));
}

const berth::hostile::Registration registration("logins", run);

}  // namespace
