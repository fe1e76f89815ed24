// Files and programs that hold logins: docker's JSON, Enroot's netrc lines, the answer of a credential helper. No error
// may repeat their content.
#include <functional>
#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/oci/auth/credentials.hh"
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

void run(std::string_view input) {
    using namespace berth::oci;
    check_silent(input, [](std::string_view text) {
        LoginFile file = parse_login_file(text, "F");
        for (const Login& login : file.logins)
            choose_login(file.logins, login.host, login.path + "/x", login.credentials.user);
    });
    check_silent(input, [](std::string_view text) { parse_helper_answer(text, "P"); });
    std::vector<std::string> unusable;
    parse_netrc(input, "F", unusable);
    is_helper_name(input);
    docker_key(registry_host(input));
}

const berth::hostile::Registration registration("logins", run);

}  // namespace
