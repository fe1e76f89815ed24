// `berth doctor`: whether this node can run containers, and what to do where it cannot.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/doctor/doctor.hh"

namespace berth::cli {

namespace {

using Verdict = Finding::Verdict;

const char* word_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok: return "ok";
        case Verdict::note: return "note";
        case Verdict::warning: return "warning";
        case Verdict::failure: return "FAILED";
    }
    return "";
}

/// Of eight columns. Failures are red on a terminal (https://no-color.org for who wants none).
std::string shown_verdict(Verdict verdict) {
    std::string word = word_of(verdict), blanks(8 - word.size(), ' ');
    const char* no_color = std::getenv("NO_COLOR");
    bool colored = verdict == Verdict::failure && ::isatty(STDOUT_FILENO) == 1 && (!no_color || *no_color == '\0');
    return cat(colored ? "\033[1;31m" : "", word, colored ? "\033[0m" : "", blanks);
}

void print_text(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
        std::printf("%s %-16s %s\n", shown_verdict(finding.verdict).c_str(), finding.subject.c_str(),
                    finding.text.c_str());
        if (!finding.advice.empty()) std::printf("%25s -> %s\n", "", finding.advice.c_str());
    }
}

void print_json(const std::vector<Finding>& findings, bool usable) {
    std::string out = cat(R"({"usable":)", usable ? "true" : "false", R"(,"findings":[)");
    for (const Finding& finding : findings)
        out += cat(&finding == &findings.front() ? "" : ",", R"({"verdict":)",
                   json_text(lower(word_of(finding.verdict))), R"(,"subject":)", json_text(finding.subject),
                   R"(,"text":)", json_text(finding.text), R"(,"advice":)", json_text(finding.advice), "}");
    std::puts((out + "]}").c_str());
}

}  // namespace

int doctor(int argc, char** argv) {
    CommandLine line(
        "Try everything a container needs on this node, and say what to do where it fails. The exit code is 1 when "
        "something failed.",
        "berth doctor");
    bool json = false;
    line.flag("--json", json, "print JSON");
    if (auto code = line.parse(argc, argv)) return *code;
    // Root can do what users cannot: its findings would say nothing about their jobs.
    if (::geteuid() == 0)
        std::fputs(
            "berth doctor: run by root, who may do more than the users whose jobs this is about; run it as one of them "
            "too\n",
            stderr);
    std::vector<Finding> findings = examine(gather_doctor_facts());
    bool usable = std::none_of(findings.begin(), findings.end(),
                               [](const Finding& finding) { return finding.verdict == Verdict::failure; });
    json ? print_json(findings, usable) : print_text(findings);
    return usable ? 0 : 1;
}

}  // namespace berth::cli
