// `berth environment`: the environment files that are there, and what one comes to. `berth define`: what the plugin in
// srun, sbatch and salloc asks for one.
#include <cstdio>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/environments.hh"
#include "runtime/host/facts.hh"

namespace berth::cli {

namespace {

plan::ResolvedEnvironment environment_of_caller(const std::string& name) {
    return read_environment(plan::parse_environment_name(name), site_of_caller(), caller_of_this_process(),
                            environment_of_this_process());
}

void print_list(const std::vector<ListedEnvironment>& listed, const std::vector<std::string>& folders) {
    if (listed.empty()) {
        for (const std::string& folder : folders)
            std::fprintf(stderr, "berth: there is no environment in %s\n", printable(folder, 4096).c_str());
        return;
    }
    std::printf("%-30s  %s\n", "NAME", "FILE");
    for (const ListedEnvironment& one : listed)
        std::printf("%-30s  %s%s\n", printable(one.name, 1024).c_str(), printable(one.path, 4096).c_str(),
                    one.hidden ? "  (hidden by the one above)" : "");
}

void print_list_json(const std::vector<ListedEnvironment>& listed) {
    std::string out;
    for (const ListedEnvironment& one : listed)
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"name":)", json_text(one.name), R"(,"file":)",
                   json_text(one.path), R"(,"hidden":)", one.hidden ? "true" : "false", "}");
    std::printf("{\"environments\":[%s\n]}\n", out.c_str());
}

/// A value in which no ${VAR} is left, so that it is the same when it is read again.
std::string as_toml(const std::string& text) {
    std::string out;
    for (char c : text) out += cat(c == '$' ? "$" : "", c);
    return json_text(out);
}

void print_toml_list(const char* key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    std::printf("%s = [", key);
    for (size_t at = 0; at < values.size(); ++at)
        std::printf("%s%s", at > 0 ? ", " : "", as_toml(values[at]).c_str());
    std::puts("]");
}

/// "mount_home" of --container-mount-home.
std::string key_of(std::string_view option) {
    std::string out(option.substr(std::string_view("container-").size()));
    for (char& letter : out)
        if (letter == '-') letter = '_';
    return out;
}

void print_toml(const plan::Definition& definition) {
    for (const auto& [name, value] : definition.options) {
        const plan::SrunOption& option = *plan::srun_option(name);
        std::printf("%s = %s\n", key_of(option.option->name).c_str(),
                    option.argument != nullptr ? as_toml(value).c_str() : option.yes ? "true" : "false");
    }
    print_toml_list("mounts", definition.mounts);
    print_toml_list("devices", definition.devices);
    if (!definition.variables.empty()) std::puts("\n[env]");
    for (const std::string& text : definition.variables) {
        size_t equals = text.find('=');
        std::printf("%s = %s\n", text.substr(0, equals).c_str(), json_text(text.substr(equals + 1)).c_str());
    }
}

int show(const std::string& name) {
    plan::ResolvedEnvironment found = environment_of_caller(name);
    for (auto file = found.files.rbegin(); file != found.files.rend(); ++file)
        std::printf("# %s\n", printable(*file, 4096).c_str());
    print_toml(found.definition);
    for (const std::string& note : found.notes) std::fprintf(stderr, "berth: %s\n", note.c_str());
    return 0;
}

int list(bool json) {
    std::vector<std::string> folders =
        environment_folders(site_of_caller(), caller_of_this_process(), environment_of_this_process());
    std::vector<ListedEnvironment> listed = list_environments(folders);
    json ? print_list_json(listed) : print_list(listed, folders);
    return 0;
}

}  // namespace

int environment(int argc, char** argv) {
    CommandLine line("List the environment files of --container-environment, or print what one comes to.",
                     "berth environment");
    bool json = false;
    std::string name;
    CommandLine listing = line.subcommand("list", "print the name and the file of each");
    listing.flag("--json", json, "print JSON");
    CommandLine showing = line.subcommand("show", "print an environment with all that it is based on, as TOML");
    showing.argument("environment", name, "NAME, or the path of a FILE").required();
    if (auto code = line.parse(argc, argv)) return *code;
    return showing.chosen() ? show(name) : list(json);
}

/// Answers on the standard output: "note TEXT" lines, then "definition TEXT", or "error TEXT" to the end.
int define(int argc, char** argv) {
    if (argc != 2) throw Error("berth define NAME|FILE is for srun, sbatch and salloc; see berth environment show");
    try {
        plan::ResolvedEnvironment found = environment_of_caller(argv[1]);
        std::string text = plan::definition_text(found.definition);
        for (const std::string& note : found.notes) std::printf("note %s\n", note.c_str());
        std::printf("definition %s\n", text.c_str());
    } catch (const Error& error) {
        std::printf("error %s\n", error.what());
    }
    return 0;
}

}  // namespace berth::cli
