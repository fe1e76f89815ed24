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

/// The files that the pattern of events.log leads to: the caller's, or as root those of all users.
std::vector<std::string> event_files(std::string pattern) {
    if (!pattern.starts_with("/")) return {};  // none, or syslog
    if (::getuid() != 0) return {plan::path_for(pattern, caller_of_this_process())};
    for (const char* user : {"%u", "%U"})
        for (size_t at; (at = pattern.find(user)) != pattern.npos;) pattern.replace(at, 2, "*");
    std::vector<std::string> out;
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
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
