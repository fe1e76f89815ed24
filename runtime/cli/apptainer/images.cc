// `apptainer pull`, `inspect`, `cache` and `registry`.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/apptainer/files.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

/// The first of APPTAINER_NAME and SINGULARITY_NAME, for each of these names, that has a value.
std::string variable_of(std::initializer_list<const char*> names) {
    for (const char* name : names)
        for (const char* prefix : {"APPTAINER_", "SINGULARITY_"})
            if (const char* value = std::getenv(cat(prefix, name).c_str()); value != nullptr && *value != '\0')
                return value;
    return {};
}

struct PullWords {
    std::string name, folder, arch;
    bool force = false, plain_http = false, accepted = false;
    std::vector<std::string> words;  ///< [FILE] URI
};

void declare(CommandLine& line, PullWords& pull) {
    line.option("--name", pull.name, "the file to write; without it NAME_TAG.sif").completed_by(Completion::files);
    line.option("--dir", pull.folder, "folder for the file").completed_by(Completion::files);
    line.option("--arch", pull.arch, "architecture of the image; that of this node");
    line.flag("-F,--force", pull.force, "replace an existing file");
    line.flag("--no-https", pull.plain_http, "speak to the registry without TLS");
    line.flag("--disable-cache", pull.accepted, "accepted: layers are kept in Berth's store all the same").hidden();
    line.flag("-U,--allow-unsigned", pull.accepted, "accepted: the site says which signatures count").hidden();
    line.argument("[FILE] URI", pull.words,
                  "docker://NAME[:TAG], oci:DIR, oci-archive:FILE, docker-archive:FILE")
        .required();
}

std::string file_of(const PullWords& pull) {
    const std::string& uri = pull.words.back();
    std::string name = pull.words.size() == 2 ? pull.words[0] : pull.name, folder = pull.folder;
    if (name.empty()) name = variable_of({"PULL_NAME"});
    if (name.empty()) name = apptainer::file_name_of(uri);
    if (folder.empty()) folder = variable_of({"PULLDIR", "PULLFOLDER"});
    return folder.empty() || name.starts_with('/') ? name : cat(folder, "/", name);
}

std::vector<std::string> words_of(const PullWords& pull, const std::string& file) {
    std::string image = apptainer::image_of(pull.words.back());
    plan::Reference reference = plan::parse_reference(image);
    std::vector<std::string> out;
    bool of_registry = reference.kind == plan::Reference::Kind::registry;
    if (of_registry && (pull.plain_http || !variable_of({"NOHTTPS", "NO_HTTPS"}).empty()))
        out.insert(out.end(), {"--plain-http", reference.registry});
    std::string arch = pull.arch.empty() ? variable_of({"PULL_ARCH"}) : pull.arch;
    if (!arch.empty()) out.insert(out.end(), {"--arch", arch});
    if (pull.force || !variable_of({"FORCE"}).empty()) out.emplace_back("--force");
    out.insert(out.end(), {"--output", file, image});
    return out;
}

/// A command of `berth` with these words behind its name.
int call(Command* command, std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return command(static_cast<int>(words.size()), argv.data());
}

/// HOST of docker://HOST or oras://HOST.
std::string host_of(const std::string& text) {
    size_t scheme = text.find("://");
    return scheme == text.npos ? text : text.substr(scheme + 3);
}

int registry_login(int argc, char** argv) {
    CommandLine line("Log in to a registry and keep the login where docker does.", "apptainer registry login");
    std::string user, host, password;
    bool from_input = false;
    line.option("-p,--password", password, "").hidden();
    line.option("-u,--username", user, "user; asked for on the terminal without it");
    line.flag("--password-stdin", from_input, "read the password from standard input instead of the terminal");
    line.argument("URI", host, "docker://HOST[:PORT]").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (!password.empty())
        throw Error("--password: all users of the node see what is on a command line; write --password-stdin");
    std::vector<std::string> words{"login", host_of(host)};
    if (!user.empty()) words.insert(words.end(), {"--user", user});
    if (from_input) words.emplace_back("--password-stdin");
    return call(login, std::move(words));
}

int registry_logout(int argc, char** argv) {
    CommandLine line("Remove the login for a registry from where docker keeps it.", "apptainer registry logout");
    std::string host;
    line.argument("URI", host, "docker://HOST[:PORT]").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    return call(logout, {"logout", host_of(host)});
}

int cache_list(int argc, char** argv) {
    CommandLine line("List the images in Berth's store.", "apptainer cache list");
    bool verbose = false;
    line.flag("-v,--verbose", verbose, "accepted: all images are listed in any case");
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    return call(images, {"images"});
}

int cache_clean(int argc, char** argv) {
    CommandLine line("Remove images from Berth's store that nothing runs from.", "apptainer cache clean");
    std::string days = "0";
    bool dry = false, force = false;
    line.option("-D,--days", days, "only what was not used for this many days");
    line.flag("-n,--dry-run", dry, "print what would be removed");
    line.flag("-f,--force", force, "accepted: it does not ask");
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    std::vector<std::string> words{"gc", "--age", days};
    if (dry) words.emplace_back("--dry-run");
    return call(gc, std::move(words));
}

/// One of two commands by the second word.
int either(int argc, char** argv, const char* one, Command* first, const char* other, Command* second,
           const char* rest) {
    std::string word = argc > 1 ? argv[1] : "";
    if (word == one) return first(argc - 1, argv + 1);
    if (word == other) return second(argc - 1, argv + 1);
    throw Error(
        cat("apptainer ", argv[0], word.empty() ? "" : " ", printable(word), ": write ", one, " or ", other, rest));
}

}  // namespace

int apptainer_pull(int argc, char** argv, const ApptainerSettings& settings) {
    CommandLine line("Write an image as a file.", "apptainer pull");
    PullWords pull;
    declare(line, pull);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (pull.words.size() > 2) throw Error("apptainer pull: there are more words than [FILE] URI");
    std::string file = file_of(pull);
    if (struct stat st {}; !pull.force && variable_of({"FORCE"}).empty() && ::lstat(file.c_str(), &st) == 0)
        throw Error(
            cat("Image file already exists: \"", printable(file, 4096), "\" - will not overwrite; write --force"));
    std::vector<std::string> words = words_of(pull, file);
    if (settings.loudness <= Loudness::quiet) words.emplace_back("--quiet");
    // Apptainer's standard output stays empty.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    become_pull_program("import", words);
}

int apptainer_inspect(int argc, char** argv, const ApptainerSettings&) {
    CommandLine line("Print what an image says of itself.", "apptainer inspect");
    apptainer::Inspection asked;
    std::string image;
    line.flag("-l,--labels", asked.labels, "its labels, which is what is printed without a flag");
    line.flag("-d,--deffile", asked.deffile, "the definition file that it was made of");
    line.flag("-r,--runscript", asked.runscript, "what apptainer run starts");
    line.flag("-s,--startscript", asked.startscript, "what instances start");
    line.flag("-t,--test", asked.test, "what apptainer test starts");
    line.flag("-e,--environment", asked.environment, "the scripts that set its variables");
    line.flag("-H,--helpfile", asked.helpfile, "its help");
    line.flag("-j,--json", asked.json, "print the labels as JSON");
    line.argument("IMAGE", image, "a SIF or squashfs file, or a directory").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    RunOptions options;
    options.request.image = apptainer::image_of(image);
    options.request.mount_home = false;
    options.request.writable = false;
    options.request.entrypoint = false;
    options.request.workdir.emplace("/");
    options.request.variables = {"NVIDIA_VISIBLE_DEVICES=void", "AMD_VISIBLE_DEVICES=void"};
    options.quiet = true;
    options.command = apptainer::inspect_command(asked);
    return run_new(options);
}

int apptainer_cache(int argc, char** argv, const ApptainerSettings&) {
    return either(argc, argv, "list", cache_list, "clean", cache_clean, "; both are about Berth's store");
}

int apptainer_registry(int argc, char** argv, const ApptainerSettings&) {
    return either(argc, argv, "login", registry_login, "logout", registry_logout, "");
}

}  // namespace berth::cli
