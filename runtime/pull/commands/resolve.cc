// `berth-pull --resolve`: what a registry's tag means now.
#include <iostream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/words.hh"
#include "runtime/host/job_answers.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/commands/arguments.hh"
#include "runtime/pull/image/chain.hh"

namespace berth::pull {

namespace {

/// One try: the nodes can ask as well.
std::string resolved(const Arguments& arguments, const plan::Site& site) {
    plan::Reference reference = plan::parse_reference(arguments.reference);
    Options options = options_of(arguments, reference, site);
    options.registry.head_retries = 0;
    auto source = oci::make_registry_source(reference, options.registry);
    if (!arguments.arch.empty()) {
        oci::Machine machine = oci::machine_named(arguments.arch);
        std::string what = printable(reference.text(), 1024);
        return find_chain(*source, std::nullopt, machine, what).document.digest.text();
    }
    auto answer = source->resolve();
    Digest digest = answer ? answer->digest : source->manifest().digest;
    if (!arguments.job_answers.empty()) digest = JobAnswers(arguments.job_answers).keep(reference.text(), digest);
    return digest.text();
}

}  // namespace

int resolve_tag(const Arguments& arguments) {
    plan::Site site = site_of(arguments);
    bool by_srun = arguments.arch.empty();
    auto print = [&](std::string line) {
        for (const std::string& word : arguments.history->words()) line += by_srun ? " " + word : "";
        std::cout << line << std::endl;
    };
    try {
        print(resolved(arguments, site));
        return 0;
    } catch (const oci::NoManifest& problem) {
        std::cout << "unknown " << plan::word_of(site.slurm.unknown_image) << ' ' << problem.what() << std::endl;
        throw;
    } catch (const Error&) {
        if (by_srun && !arguments.history->refused().empty()) print("-");
        throw;
    }
}

}  // namespace berth::pull
