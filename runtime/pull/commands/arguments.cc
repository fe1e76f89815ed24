#include "runtime/pull/commands/arguments.hh"

#include <cstdlib>

#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/oci/layer/gzip.hh"
#include "runtime/pull/image/daemons.hh"

namespace berth::pull {

std::optional<int> parse(int argc, char** argv, Arguments& arguments) {
    std::vector<std::string> refused_logins;
    CommandLine line("Brings an image into a store of berth.", "berth-pull");
    line.version(cat("berth-pull " BERTH_VERSION ", gzip by ", oci::name_of(oci::best_gzip_engine())));
    line.option("--store", arguments.store, "directory of the store");
    line.option("--policy", arguments.policy, "newer (default), missing, always or never");
    line.option("--plain-http", arguments.plain_http, "registry without TLS (loopback always)");
    line.option("--site", arguments.site, "site file, for the settings of registries");
    line.option("--setting", arguments.settings, "BERTH_SECTION_KEY=VALUE, overrides the variable of that name");
    line.option("--threads", arguments.threads, "that compress, at most; 0: one for each CPU").at_most(1024);
    line.option("--keep-bytes", arguments.keep_bytes, "what the store may keep after the pull; 0: no limit");
    line.option("--keep-days", arguments.keep_days, "days without use after which images are removed then; 0: never");
    auto report =
        line.flag("--report", arguments.output.report, "report to a program, by lines on the standard output");
    line.flag("--bars", arguments.output.bars, "show progress on standard error all the same, when it is a terminal")
        .needs(report);
    auto json =
        line.flag("--json", arguments.output.json, "tell what happens as JSON on the standard output").excludes(report);
    line.flag("-q,--quiet", arguments.output.quiet, "print nothing but the digest").excludes(json);
    auto resolve = line.flag("--resolve", arguments.resolve, "only print the digest that a registry's tag has now");
    line.option("--arch", arguments.arch,
                "with --resolve: of the manifest for this architecture, where the tag means several")
        .needs(resolve);
    line.option("--job-answers", arguments.job_answers, "with --resolve: file that keeps the answer for the job")
        .needs(resolve);
    auto agree =
        line.flag("--agree", arguments.agree,
                  "only agree with the step's other nodes what the tag means; where is read from standard input")
            .needs(report);
    line.flag("--share", arguments.share,
              "share the image with the step's other nodes; where they meet is read from standard input")
        .needs(report)
        .excludes(agree);
    line.flag("--prove-later", arguments.prove_later,
              "use published layers that a key of the site's has signed, and prove them when the image is here")
        .needs(report);
    line.flag("--early", arguments.early,
              "let the image start before its layers are here, where a key of the site's has signed them")
        .needs(report);
    line.option("--job", arguments.job, "JOB.STEP, for the events of what goes on when the image can start")
        .needs(report);
    line.option("--refused-login", refused_logins,
                "HOST=FILE, as in a URL: a login that is not sent, since the registry has refused it");
    line.flag("--ask-variables", arguments.ask_variables,
              "ask who reads the report for variables that are passwords; the answers are read from standard input")
        .needs(report);
    line.option("--user", arguments.user, "whose login to use, or to make");
    auto login = line.option("--login", arguments.login, "registry to log in to, instead of a pull");
    line.flag("--password-stdin", arguments.password_from_input, "with --login: read the password from standard input")
        .needs(login);
    auto logout =
        line.option("--logout", arguments.logout, "registry whose login to remove, instead of a pull").excludes(login);
    auto image = line.argument("reference", arguments.reference, "the image").excludes(login).excludes(logout);
    if (auto code = line.parse(argc, argv)) return code;
    for (const std::string& word : refused_logins)
        if (auto refused = oci::parse_refused_login(word)) arguments.history->add(std::move(*refused));
    arguments.of_login = login.given() || logout.given();
    if (!arguments.of_login && (!image.given() || (arguments.store.empty() && !resolve.given())))
        return line.missing("--store and the image");
    return std::nullopt;
}

plan::Site site_of(const Arguments& arguments) {
    std::vector<std::string> settings = environment_of_this_process();
    settings.insert(settings.end(), arguments.settings.begin(), arguments.settings.end());
    return site_of(arguments.site, settings);
}

Options options_of(const Arguments& arguments, const plan::Reference& reference, const plan::Site& site) {
    std::vector<std::string> environment = environment_of_this_process();
    Logins logins(environment, site);
    logins.history = arguments.history;
    if (arguments.ask_variables)
        logins.places.variable = [variables = arguments.variables](const std::string& name) {
            return variables->value(name);
        };
    Options out;
    out.policy = policy_of(arguments.policy);
    out.fresh_for = site.store.fresh_for;
    out.stall_time = std::chrono::seconds(site.limits.stall_time);
    out.fetch_rate = site.limits.fetch_rate;
    out.signatures = signature_rules(site);
    out.artifacts = artifact_rules(site, logins);
    set_daemon(out, reference, environment);
    out.keep = {arguments.keep_bytes, int64_t{24 * 3600} * arguments.keep_days};
    out.limits = pull_limits(site);
    out.limits.threads = arguments.threads;
    out.registry = options_for(reference, arguments.user, site, logins);
    out.registry.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    return out;
}

void start_log(const OutputOptions& output) {
    if (!debug::asks_for_log(std::getenv("BERTH_LOG"))) return;
    output.report ? debug::start_in_report("berth-pull") : debug::start("berth-pull");
}

}  // namespace berth::pull
