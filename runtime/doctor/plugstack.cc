#include "runtime/doctor/plugstack.hh"

#include <fnmatch.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/helper_program.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/doctor/site_settings.hh"
#include "runtime/doctor/slurm_conf.hh"
#include "runtime/request/plugin_words.hh"

namespace berth {

namespace {

constexpr size_t file_limit = 1 << 20;

/// Empty for a file that cannot be read.
std::string text_of(const std::string& file, bool& read) {
    try {
        std::string text = sys::read_file(file, file_limit);
        read = true;
        return text;
    } catch (const Error&) {
        read = false;
        return {};
    }
}

/// The pattern of an `include`, as Slurm completes it.
std::string pattern_of(const std::string& file, const std::string& word) {
    return word.starts_with('/') ? word : cat(file.substr(0, file.rfind('/') + 1), word);
}

/// `depth` ends circles of includes.
PlugstackLine find(const std::string& file, std::string_view name, unsigned depth, std::vector<std::string>& looked) {
    bool read = false;
    std::string text = text_of(file, read);
    if (!read) return {};
    looked.push_back(file);
    for (const std::string& line : split(text, '\n')) {
        std::vector<std::string> words = words_of(line);
        if (words.size() < 2) continue;
        bool loads = words[0] == "required" || words[0] == "optional";
        if (loads && words[1].substr(words[1].rfind('/') + 1).find(name) != std::string::npos)
            return {file, words[1], {words.begin() + 2, words.end()}};
        if (words[0] != "include" || depth == 0) continue;
        for (const std::string& included : files_matching(pattern_of(file, words[1])))
            if (PlugstackLine found = find(included, name, depth - 1, looked); !found.file.empty()) return found;
    }
    return {};
}

}  // namespace

std::string problem_of_line(const PlugstackLine& line) {
    try {
        check_helper_program(plan::parse_plugin_words(line.words).helper);
        return {};
    } catch (const Error& problem) {
        return problem.what();
    }
}

std::vector<std::string> slurm_folders() {
    std::vector<std::string> out;
    if (const char* conf = std::getenv("SLURM_CONF"); conf && conf[0] == '/')
        out.push_back(std::string(conf).substr(0, std::strrchr(conf, '/') - conf));
    for (const char* folder : {"/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf", "/usr/local/etc/slurm"})
        out.emplace_back(folder);
    return out;
}

std::string folder_of_slurm() {
    for (const std::string& folder : slurm_folders())
        if (::access((folder + "/slurm.conf").c_str(), F_OK) == 0) return folder;
    return "/etc/slurm";
}

std::string plugstack_of(const std::string& folder) {
    std::string value;
    try {
        value = slurm_value(read_slurm_conf(folder + "/slurm.conf"), "plugstackconfig");
    } catch (const Error&) {
        // As one without the key.
    }
    if (value.empty()) return folder + "/plugstack.conf";
    return value.starts_with('/') ? value : cat(folder, "/", value);
}

PlugstackLine find_plugstack_line(const std::string& file, std::string_view name, std::vector<std::string>& looked) {
    return find(file, name, 4, looked);
}

bool would_be_included(const std::string& plugstack, const std::string& path) {
    std::vector<std::string> files;
    // No plugin has this name, so that all is looked at.
    find_plugstack_line(plugstack, "/", files);
    for (const std::string& file : files) {
        bool read = false;
        for (const std::string& line : split(text_of(file, read), '\n')) {
            std::vector<std::string> words = words_of(line);
            // As glob(3) of files_matching() takes it.
            if (words.size() > 1 && words[0] == "include" &&
                ::fnmatch(pattern_of(file, words[1]).c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
                return true;
        }
    }
    return false;
}

std::vector<std::string> files_matching(const std::string& pattern) {
    glob_t found{};
    std::vector<std::string> out;
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    return out;
}

}  // namespace berth
