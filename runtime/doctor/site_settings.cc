#include "runtime/doctor/site_settings.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth {

namespace {

struct Setting {
    std::string_view key, word;
    const char* meaning;
};

constexpr const char* of_job = "--container-mounts takes the job's own /tmp; /dev/shm inside is the job's";

// tests/sites has a box with each of them. The first one is called by the second name since 25.11.
constexpr Setting known[] = {
    {"jobcontainertype", "job_container/tmpfs", of_job},
    {"namespacetype", "namespace/tmpfs", of_job},
    {"namespacetype", "namespace/linux", of_job},
    {"prologflags", "runinjob",
     "a job's containers are ended by its extern step: Slurm calls no slurm_spank_job_epilog"},
    {"launchparameters", "test_exec",
     "srun looks for each program on the submit host: one that only the image has is refused there"},
    {"slurmdparameters", "contain_spank", "the plugin's callbacks run in the job's mounts"},
    {"prologflags", "x11", "srun --x11 works in containers; their key of the display is read-only"},
    {"launchparameters", "use_interactive_step", "salloc --container-image starts the user's shell in the container"},
    {"constrainramspace", "yes", "a step's memory has room for its file server and for what the container writes"},
};

constexpr Setting known_namespaces[] = {
    {"namespace.yaml", "CLONE_NEWPID",
     "a named container ends with the job that started it, and the steps of other jobs in it fail; set "
     "defaults.container_scope = \"job\", or take it out"},
    {"namespace.yaml", "CLONE_NEWUSER",
     "the steps of other jobs cannot enter a named container that runs; set defaults.container_scope = \"job\", or "
     "take it out"},
};

bool has_word(std::string_view value, std::string_view word) {
    std::vector<std::string> words = split(value, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::vector<std::string> words_of(const std::string& line) {
    constexpr const char* between = " \t\r";
    std::string text = line.substr(0, line.find('#'));
    std::vector<std::string> out;
    for (size_t at = text.find_first_not_of(between); at != text.npos; at = text.find_first_not_of(between, at)) {
        size_t end = std::min(text.find_first_of(between, at), text.size());
        out.push_back(text.substr(at, end - at));
        at = end;
    }
    return out;
}

std::vector<std::string> settings_that_matter(const std::vector<SlurmSetting>& settings) {
    std::vector<std::string> out;
    for (const SlurmSetting& one : settings)
        for (const Setting& setting : known)
            if (lower(one.key) == setting.key && has_word(lower(one.value), setting.word))
                out.push_back(cat(printable(one.key), "=", setting.word, ": ", setting.meaning));
    return out;
}

std::vector<std::string> namespaces_that_matter(std::string_view text) {
    std::string flags;
    for (const std::string& line : split(text, '\n')) flags += line.substr(0, line.find('#')) + '\n';
    std::vector<std::string> out;
    for (const Setting& setting : known_namespaces)
        if (flags.find(setting.word) != flags.npos)
            out.push_back(cat(setting.key, " has ", setting.word, ": ", setting.meaning));
    return out;
}

}  // namespace berth
