// What `berth-pull` is asked for where its first word is no command: a pull, what a tag means, a login.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/pull/commands/asked_variables.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/image/settings.hh"

namespace berth::pull {

struct Arguments {
    std::string store;
    std::string policy = "newer";
    std::vector<std::string> plain_http;
    std::string site;
    std::string user;
    std::string login;   ///< the registry
    std::string logout;  ///< the same
    bool of_login = false;
    std::string arch;
    std::string job_answers;
    std::string job;
    bool ask_variables = false;
    bool password_from_input = false;
    bool resolve = false;
    bool agree = false;
    bool share = false;
    bool prove_later = false;
    bool early = false;
    OutputOptions output;
    std::vector<std::string> settings;
    unsigned threads = 0;
    uint64_t keep_bytes = 0;
    unsigned keep_days = 0;
    std::string reference;
    /// What all that this process asks registries for has in common.
    std::shared_ptr<oci::LoginHistory> history = std::make_shared<oci::LoginHistory>();
    std::shared_ptr<AskedVariables> variables = std::make_shared<AskedVariables>();
};

/// The exit code where there is nothing to do: after --help, or a mistake, which has been told.
std::optional<int> parse(int argc, char** argv, Arguments& arguments);

/// The site file with the user's variables and --setting over it.
plan::Site site_of(const Arguments& arguments);

/// How the image is pulled, but for the other nodes of the step.
Options options_of(const Arguments& arguments, const plan::Reference& reference, const plan::Site& site);

// What they ask for. The exit code; Errors are not told yet but by pull_image().
int pull_image(const Arguments& arguments);
/// Prints what a registry's tag means, and for srun what the nodes need not try: which logins the registry has refused.
/// "-" stands for no digest. "unknown warn LINE" or "unknown refuse LINE", by the site's key, is for sbatch, whose job
/// would wait to fail; not for a registry that lets nobody in: the nodes may have another login.
int resolve_tag(const Arguments& arguments);
int keep_login(const Arguments& arguments);

/// Whoever reads the report passes the debug log's lines on.
void start_log(const OutputOptions& output);

}  // namespace berth::pull
