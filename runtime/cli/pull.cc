// `berth pull`: the program berth-pull with the site's settings.
#include <cstdio>
#include <ctime>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

std::vector<std::string> arguments_for(const std::string& policy) {
    plan::Site site = load_site();
    plan::apply_environment(site, environment_of_this_process());
    if (!policy.empty()) site.store.pull = plan::parse_word<plan::PullPolicy>(policy).value();
    return pull_arguments(site, open_callers_store(site).location());
}

}  // namespace

int pull(int argc, char** argv) {
    CommandLine line("Bring an image into the store and print its digest.", "berth pull");
    std::string image, policy;
    bool json = false, quiet = false;
    line.option("--policy", policy, "newer: ask the registry about a tag; missing; always; never")
        .one_of(plan::word_list<plan::PullPolicy>());
    auto as_json = line.flag(
        "--json", json,
        "print what happens as JSON, an object a line; the last one is \"done\" with the digest, or \"error\"");
    line.flag("-q,--quiet", quiet, "print nothing but the digest").excludes(as_json);
    line.argument("image", image,
                  "REGISTRY/NAME:TAG, NAME@sha256:..., oci:DIR, oci-archive:FILE, docker-archive:FILE, dockerd://NAME "
                  "or podman://NAME")
        .required();
    if (auto code = line.parse(argc, argv)) return *code;
    try {
        if (plan::looks_like_image_file(image)) throw Error(plan::missing_file_mistake(image));
        std::vector<std::string> arguments = arguments_for(policy);
        if (json) arguments.emplace_back("--json");
        if (quiet) arguments.emplace_back("--quiet");
        arguments.push_back(image);
        exec_pull_program(std::move(arguments));
    } catch (const Error& error) {
        if (!json) throw;
        // As from berth-pull, which could not be started.
        std::printf("{\"event\":\"error\",\"time\":%s,\"image\":%s,\"text\":%s,\"code\":%d}\n",
                    json_text(iso_time(::time(nullptr))).c_str(), json_text(image).c_str(),
                    json_text(error.what()).c_str(), error.exit_code());
        return error.exit_code();
    }
}

}  // namespace berth::cli
