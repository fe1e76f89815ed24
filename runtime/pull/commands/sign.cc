// The command line of `berth sign`.
#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/publish/sign.hh"

namespace berth::pull {

namespace {

struct SignArguments {
    std::string key, image, site, store;
    std::vector<std::string> plain_http;
    bool quiet = false;
};

void sign(const SignArguments& arguments) {
    plan::Reference reference = plan::parse_reference(arguments.image);
    std::vector<std::string> environment = environment_of_this_process();
    plan::Site site = site_of(arguments.site, environment);
    oci::RegistryOptions options =
        options_for(reference, "", site, Logins(environment, site));
    options.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    // What is signed comes from the registry itself, and goes there.
    options.mirrors.clear();
    std::string file = printable(arguments.key, 4096);
    trust::PrivateKey key(sys::read_file(arguments.key), file);
    for (const Digest& digest : sign_image(reference, key, options))
        if (!arguments.quiet) std::printf("signed %s\n", digest.text().c_str());
}

}  // namespace

int sign_command(int argc, char** argv) {
    SignArguments arguments;
    CommandLine line("Sign an image in its registry with a key.", "berth sign");
    line.option("--key", arguments.key, "private key in PEM, without a password").required();
    line.flag("-q,--quiet", arguments.quiet, "print nothing");
    line.option("--store", arguments.store, "").hidden();
    line.option("--site", arguments.site, "").hidden();
    line.option("--plain-http", arguments.plain_http, "").hidden();
    line.argument("image", arguments.image, "REGISTRY/NAME:TAG or NAME@sha256:...").required();
    if (auto code = line.parse(argc, argv)) return *code;
    sign(arguments);
    return 0;
}

}  // namespace berth::pull
