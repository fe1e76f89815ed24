// `enroot list`.
#include "runtime/enroot/list.hh"

#include <algorithm>
#include <cstdio>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/enroot/processes.hh"
#include "runtime/config/command_line.hh"

namespace berth::cli {

namespace {

/// What the root of those in it is called while the container runs, see start_helper(); else empty.
std::string source_of(const ContainerFolder& folder, const std::string& name) try {
    return sys::read_file(folder.path_of(name) + "/running", 4096);
} catch (const Error&) {
    return {};
}

/// Those with a name, and those of steps without one, which are there while somebody is in them.
std::vector<enroot::ListedContainer> containers(const FrontEnd& front) {
    std::map<std::string, std::string> by_source;
    std::map<std::string, enroot::ListedContainer> out;
    for (const enroot::Place& place : front.all()) {
        out[place.shown()] = {place.shown(), {}};
        if (std::string source = source_of(front.folder_of(place), place.name); !source.empty())
            by_source[source] = place.shown();
    }
    for (ContainerProcess& process : container_processes()) {
        auto known = by_source.find(process.source);
        // A step without a name was made with no such path.
        if (known == by_source.end() && !process.step.empty() && !front.settings.data_path.empty()) continue;
        std::string unnamed = process.step.empty() ? "<unknown>" : "pyxis_" + process.step;
        std::string name = known == by_source.end() ? unnamed : known->second;
        out[name].name = name;
        out[name].processes.push_back(std::move(process.listed));
    }
    std::vector<enroot::ListedContainer> sorted;
    for (auto& [name, one] : out) sorted.push_back(std::move(one));
    return sorted;
}

}  // namespace

int enroot_list(int argc, char** argv) {
    CommandLine line("List the containers of this node.", "enroot list");
    bool fancy = false;
    line.flag("-f,--fancy", fancy, "a table, with the processes that run in them");
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    std::vector<enroot::ListedContainer> all = containers(front_end());
    if (fancy) {
        std::fputs(enroot::fancy_table(all).c_str(), stdout);
        return 0;
    }
    for (const enroot::ListedContainer& one : all)
        if (one.name != "<unknown>") std::puts(one.name.c_str());
    return 0;
}

}  // namespace berth::cli
