// `berth-pull admit`: whether an image file or directory may run by the site's signature policy. For berth.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/image/admission.hh"
#include "runtime/pull/image/settings.hh"

namespace berth::pull {

namespace {

void tell(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

/// What images/admitted.cc reads.
void tell_verdict(const FileVerdict& verdict) {
    store::SignatureRecord record;
    record.put(verdict.admitted);
    tell(store::format_signatures(record));
    if (verdict.sums) tell(verdict.sums->text());
}

}  // namespace

int admit_command(int argc, char** argv) {
    std::string site, path;
    bool reports = false;
    CommandLine line("Say whether an image file may run by the site's signature policy.", "berth-pull admit");
    line.option("--site", site, "site file");
    line.flag("--report", reports, "the standard input is the file; tell a program, by lines on the standard output");
    line.argument("path", path, "the file or directory").required();
    if (auto code = line.parse(argc, argv)) return *code;
    SignatureRules rules = signature_rules(site_of(site, environment_of_this_process()));
    if (!reports)
        return check_file(rules, path, sys::open_file(path, O_RDONLY | O_NONBLOCK).get(), {}), 0;
    try {
        tell_verdict(check_file(rules, path, STDIN_FILENO, [](uint64_t done, uint64_t total) {
            tell(cat("progress ", done, " ", total, "\n"));
        }));
        return 0;
    } catch (const Error& problem) {
        tell(cat("error ", problem.what(), "\n"));
        return problem.exit_code();
    }
}

}  // namespace berth::pull
