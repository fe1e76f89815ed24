// `berth stats`: the counters of starts and pulls on this node.
#include <unistd.h>

#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"
#include "runtime/telemetry/counters_file.hh"

namespace berth::cli {

int stats(int argc, char** argv) {
    CommandLine line("Print counts of the caller's starts and pulls on this node; as root, of all users.",
                     "berth stats");
    bool json = false, prometheus = false;
    auto as_json = line.flag("--json", json, "print JSON");
    line.flag("--prometheus", prometheus, "for the textfile collector of node_exporter").excludes(as_json);
    if (auto code = line.parse(argc, argv)) return *code;
    std::string folder = site_of_caller().events.counters;
    if (folder.empty())
        throw Error(
            "reading the counters: nothing is counted here; name a folder for them by events.counters in "
            "/etc/berth/berth.conf");
    CountersSum sum = ::getuid() == 0 && folder.find("%U") != folder.npos
                          ? sum_all_counters(folder)
                          : sum_counters(plan::path_for(folder, caller_of_this_process()), ::getuid());
    for (const std::string& refusal : sum.refused) std::fprintf(stderr, "berth: %s\n", refusal.c_str());
    std::string out = json         ? plan::counters_json(sum.counters, sum.files, sum.refused.size())
                      : prometheus ? plan::prometheus_text(sum.counters, sum.files, sum.refused.size())
                                   : plan::counters_table(sum.counters);
    std::fputs(out.c_str(), stdout);
    return 0;
}

}  // namespace berth::cli
