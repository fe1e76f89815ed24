// `berth report`: what a site's events come to, by the program berth-pull, which reads JSON.
#include <glob.h>
#include <unistd.h>

#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"

namespace berth::cli {

namespace {

/// What glob(3) would take for a pattern of its own.
std::string quoted(const std::string& text) {
    std::string out;
    for (char c : text) out += std::string_view("*?[]\\").find(c) == std::string_view::npos ? cat(c) : cat('\\', c);
    return out;
}

/// The files that the pattern of events.log leads to: of all nodes, and the caller's, or as root those of all users.
std::vector<std::string> event_files(const std::string& pattern) {
    if (pattern.empty() || pattern == "syslog") return {};
    plan::Caller caller = caller_of_this_process();
    bool of_all = ::getuid() == 0;
    if (!of_all && pattern.find("%n") == pattern.npos) return {plan::path_for(pattern, caller)};
    std::string files;
    for (size_t at = 0; at < pattern.size(); ++at) {
        bool sign = pattern[at] == '%' && at + 1 < pattern.size();
        char which = sign ? pattern[++at] : '\0';
        bool any = which == 'n' || (of_all && (which == 'u' || which == 'U'));
        files += any ? "*" : quoted(sign ? plan::path_for(cat('%', which), caller) : cat(pattern[at]));
    }
    std::vector<std::string> out;
    glob_t found{};
    if (::glob(files.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
        out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    return out;
}

}  // namespace

int report(int argc, char** argv) {
    std::vector<std::string> words{"report"};
    for (const std::string& file : event_files(site_of_caller().events.log))
        words.insert(words.end(), {"--site-log", file});
    words.insert(words.end(), argv + 1, argv + argc);
    exec_pull_program(words);
}

}  // namespace berth::cli
