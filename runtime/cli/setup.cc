// `berth setup plugstack`: what has Slurm load the plugin, which an installation leaves to the administrator.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/config/command_line.hh"
#include "runtime/doctor/plugstack.hh"
#include "runtime/host/own_program.hh"

namespace berth::cli {

namespace {

struct Places {
    std::string plugstack;  ///< plugstack.conf
    std::string folder;     ///< plugstack.conf.d beside it, or where that stays
    std::string file;       ///< berth.conf in there, which loads the plugin
    /// where --disable keeps a file with the site's own words: the first of them that no include of the site matches
    std::vector<std::string> kept;
};

enum class Entry { none, link, file };

Places places_in(const std::string& slurm_folder) {
    Places out;
    out.plugstack = plugstack_of(slurm_folder);
    std::string folder = out.plugstack.substr(0, out.plugstack.rfind('/'));
    // slurmctld sends what is in there (configless Slurm), and a reboot removes the rest.
    if (folder == "/run/slurm/conf") folder = "/etc/slurm";
    out.folder = folder + "/plugstack.conf.d";
    out.file = out.folder + "/berth.conf";
    out.kept = {out.file + ".disabled", out.folder + "/.berth.conf.disabled", out.folder + ".berth-disabled"};
    return out;
}

/// Where Slurm does not find a file that is put away.
std::string place_to_keep(const Places& at) {
    for (const std::string& path : at.kept)
        if (!would_be_included(at.plugstack, path)) return path;
    throw Error(cat("putting ", at.file, " away: the includes of ", at.plugstack, " match every name for it (",
                    at.kept.front(), " ...); take the include out, or move the file yourself"));
}

Entry entry_at(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno == ENOENT) return Entry::none;
        throw SysError("looking at " + path);
    }
    return S_ISLNK(info.st_mode) ? Entry::link : Entry::file;
}

/// The file that loads the plugin, of those that Slurm reads from `file` on; empty when none does.
std::string loaded_by(const std::string& file, std::string_view plugin) {
    std::vector<std::string> looked;
    return find_plugstack_line(file, plugin, looked).file;
}

void move(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw SysError(cat("renaming ", from, " to ", to, " (root may)"));
}

/// The line as it is installed: PREFIX/share/berth/plugstack.conf of PREFIX/bin/berth.
std::string example() {
    std::filesystem::path program = own_program_path();
    std::string out = (program.parent_path() / "../share/berth/plugstack.conf").lexically_normal();
    if (::access(out.c_str(), R_OK) != 0)
        throw SysError(cat("looking for the plugin's line in ", out, ", which is installed with spank_berth.so"));
    return out;
}

/// In place of a link that may be there, so that no slurmd that starts meanwhile finds none.
void make_link(const Places& at) {
    std::string target = example(), unfinished = cat(at.folder, "/.berth.", ::getpid());
    try {
        sys::make_directories(at.folder, 0755);
    } catch (const Error& error) {
        throw Error(cat(error.what(), " (root may)"));
    }
    if (::symlink(target.c_str(), unfinished.c_str()) != 0)
        throw SysError(cat("making the link ", at.file, " (root may)"));
    move(unfinished, at.file);
    std::printf("%s: a link to %s now\n", at.file.c_str(), target.c_str());
}

/// A slurmd that reads a line with a mistake does not start, nor does any srun.
void note_restart(const Places& at) {
    std::vector<std::string> looked;
    PlugstackLine line = find_plugstack_line(at.plugstack, plugin_name, looked);
    if (std::string problem = problem_of_line(line); !problem.empty())
        throw Error(cat(line.file, ": ", problem, "; mend the line before slurmd is restarted"));
    std::printf("%s leads to it: restart slurmd\n", at.plugstack.c_str());
}

void enable(const Places& at) {
    Entry entry = entry_at(at.file);
    if (std::string file = loaded_by(at.plugstack, plugin_name); !file.empty()) {
        std::printf("%s loads %s already\n", file.c_str(), plugin_name);
    } else if (entry == Entry::file && loaded_by(at.file, plugin_name).empty()) {
        throw Error(cat("loading the plugin by ", at.file, ": a file is there that does not load ", plugin_name,
                        "; add the line, or move the file away"));
    } else if (entry == Entry::file) {
        std::printf("%s is there already\n", at.file.c_str());
    } else {
        auto is_there = [](const std::string& path) { return entry_at(path) != Entry::none; };
        auto kept = std::ranges::find_if(at.kept, is_there);
        if (kept == at.kept.end()) {
            make_link(at);
        } else {
            move(*kept, at.file);
            std::printf("%s: back again, as it was before --disable\n", at.file.c_str());
        }
    }
    if (loaded_by(at.plugstack, plugin_name).empty())
        std::printf("%s does not include it: add the line \"include %s/*.conf\"\n", at.plugstack.c_str(),
                    at.folder.c_str());
    else
        note_restart(at);
    if (std::string pyxis = loaded_by(at.plugstack, "pyxis"); !pyxis.empty())
        std::printf("%s loads the plugin of Pyxis, which does the work until that line is taken out\n", pyxis.c_str());
}

/// What a former release has put away under a name that the site's includes match.
void put_former_away(const Places& at) {
    const std::string& former = at.kept.front();
    if (entry_at(former) != Entry::file || !would_be_included(at.plugstack, former)) return;
    std::string kept = place_to_keep(at);
    if (entry_at(kept) != Entry::none) return;
    move(former, kept);
    std::printf("%s is %s now\n", former.c_str(), kept.c_str());
}

void disable(const Places& at) {
    switch (entry_at(at.file)) {
        case Entry::none:
            std::printf("%s is not there\n", at.file.c_str());
            break;
        case Entry::link:
            if (::unlink(at.file.c_str()) != 0) throw SysError(cat("removing ", at.file, " (root may)"));
            std::printf("%s: removed\n", at.file.c_str());
            break;
        case Entry::file:
            std::string kept = place_to_keep(at);
            move(at.file, kept);
            std::printf("%s is %s now\n", at.file.c_str(), kept.c_str());
    }
    put_former_away(at);
    if (std::string file = loaded_by(at.plugstack, plugin_name); !file.empty())
        std::printf("%s still loads %s: take its line out\n", file.c_str(), plugin_name);
    else
        std::printf("%s does not load %s: restart slurmd\n", at.plugstack.c_str(), plugin_name);
}

}  // namespace

int setup(int argc, char** argv) {
    CommandLine line("Have Slurm load the plugin on this host, or no longer. Run by root.", "berth setup");
    std::string what, folder = folder_of_slurm();
    bool on = false, off = false;
    line.argument("what", what, "plugstack: the file in plugstack.conf.d that loads the plugin")
        .required()
        .one_of({"plugstack"});
    auto enabling = line.flag("--enable", on, "make it, a link to the installed line");
    auto disabling = line.flag("--disable", off, "remove it, or move away a file with lines of the site");
    line.option("--folder", folder, "the folder of slurm.conf, where Slurm's commands have another than usual");
    enabling.excludes(disabling);
    if (auto code = line.parse(argc, argv)) return *code;
    if (!on && !off) return line.missing("--enable or --disable");
    Places at = places_in(folder);
    on ? enable(at) : disable(at);
    return 0;
}

}  // namespace berth::cli
