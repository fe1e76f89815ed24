// `apptainer pull`, `build`, `inspect`, `cache` and `registry`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/apptainer/files.hh"
#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/inspect.hh"
#include "runtime/apptainer/instead.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/file.hh"
#include "runtime/images/image_files.hh"
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
    std::string name, folder, arch, variant, tmpdir, packing, ignored;
    bool force = false, plain_http = false, accepted = false, sandbox = false, asks_login = false;
    std::string user, password, docker_host, login_file;
    std::vector<std::string> words;  ///< [FILE] URI
};

/// What pull and build have both.
void declare_both(CommandLine& line, PullWords& pull) {
    line.option("--arch", pull.arch, "architecture of the image; that of this node");
    line.flag("-F,--force", pull.force, "replace an existing file");
    line.flag("--nohttps", pull.plain_http, "").hidden();
    line.flag("--no-https", pull.plain_http, "speak to the registry without TLS");
    line.flag("--disable-cache", pull.accepted, "accepted: layers are kept in Berth's store all the same").hidden();
    line.flag("-U,--allow-unsigned,--allow-unauthenticated", pull.accepted,
              "accepted: the site says which signatures count").hidden();
    line.flag("--no-cleanup", pull.accepted, "accepted: nothing is left in any case").hidden();
    line.option("--library", pull.ignored, "accepted: images of a library are not fetched").hidden();
    line.option("--arch-variant", pull.variant, "").hidden();
    line.option("--tmpdir", pull.tmpdir, "").hidden();
    line.flag("--sandbox", pull.sandbox, "").hidden();
    line.flag("--docker-login", pull.asks_login, "").hidden();
    line.option("--docker-username", pull.user, "").hidden();
    line.option("--docker-password", pull.password, "").hidden();
    line.option("--docker-host", pull.docker_host, "").hidden();
    line.option("--authfile", pull.login_file, "").hidden();
}

void declare_pull(CommandLine& line, PullWords& pull) {
    line.option("--name", pull.name, "the file to write; without it NAME_TAG.sif").completed_by(Completion::files);
    line.option("--dir", pull.folder, "folder for the file").completed_by(Completion::files);
    declare_both(line, pull);
    line.argument("[FILE] URI", pull.words,
                  "docker://NAME[:TAG], oras://REGISTRY/NAME[:TAG], oci:DIR, oci-archive:FILE, docker-archive:FILE")
        .required();
}

/// As `apptainer exec` refuses them, by flag and by variable.
void refuse_flags(const PullWords& pull, const std::vector<std::string>& environment) {
    if (pull.sandbox || !variable_of({"SANDBOX"}).empty())
        throw Error("--sandbox: images are not unpacked; pull a file, and unpack that by unsquashfs -d DIR FILE");
    apptainer::Given given, of_logins;
    if (pull.asks_login) given["docker-login"] = {""};
    if (!pull.user.empty()) given["docker-username"] = {pull.user};
    if (!pull.password.empty()) given["docker-password"] = {pull.password};
    if (!pull.docker_host.empty()) given["docker-host"] = {pull.docker_host};
    if (!pull.login_file.empty()) given["authfile"] = {pull.login_file};
    apptainer::add_variables(given, environment);
    for (auto& [name, values] : given)
        if (name.starts_with("docker-") || name == "authfile") of_logins[name] = values;
    apptainer::refuse_flags(of_logins, false);
}

std::string file_of(const PullWords& pull) {
    const std::string& uri = pull.words.back();
    std::string name = pull.words.size() == 2 ? pull.words[0] : pull.name, folder = pull.folder;
    if (name.empty()) name = variable_of({"PULL_NAME"});
    if (name.empty()) name = apptainer::file_name_of(uri);
    if (folder.empty()) folder = variable_of({"PULLDIR", "PULLFOLDER"});
    return folder.empty() || name.starts_with('/') ? name : cat(folder, "/", name);
}

/// The codec of words for mksquashfs, of which nothing else is understood. Pure.
std::string codec_of(const std::string& packing) {
    if (packing.empty()) return {};
    std::vector<std::string> words = split(packing, ' ');
    std::erase(words, "");
    if (words.size() == 2 && words[0] == "-comp") return words[1];
    throw Error(
        cat("--mksquashfs-args ", printable(packing), ": write \"-comp gzip\", \"-comp zstd\" or \"-comp lz4\""));
}

/// Whether a file is a recipe, which begins with a line for where the image comes from, or comments.
bool is_definition(const std::string& path) {
    Fd file = sys::try_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    char start[4096];
    ssize_t size = file ? ::pread(file.get(), start, sizeof start, 0) : -1;
    if (size <= 0) return false;
    for (const std::string& line : split(std::string_view(start, static_cast<size_t>(size)), '\n')) {
        std::string_view text = trimmed(line);
        if (!text.empty() && text.front() != '#') return lower(text).starts_with("bootstrap:");
    }
    return false;
}

/// The words of `berth-pull import`, or of `berth-pull sif` for an artifact.
std::vector<std::string> words_of(const PullWords& pull, const std::string& file) {
    std::string artifact = apptainer::artifact_of(pull.words.back());
    std::string image = artifact.empty() ? apptainer::image_of(pull.words.back()) : artifact;
    plan::Reference reference = plan::parse_reference(image);
    std::vector<std::string> out{"--of-apptainer"};
    if (artifact.empty()) out.emplace_back("--sif");
    bool of_registry = reference.kind == plan::Reference::Kind::registry;
    if (of_registry && (pull.plain_http || !variable_of({"NOHTTPS", "NO_HTTPS"}).empty()))
        out.insert(out.end(), {"--plain-http", reference.registry});
    std::string arch = pull.arch.empty() ? variable_of({"PULL_ARCH"}) : pull.arch,
                variant = pull.variant.empty() ? variable_of({"PULL_ARCH_VARIANT"}) : pull.variant;
    if (!arch.empty() && !variant.empty()) arch += "/" + variant;
    // A SIF file is of one architecture, whose it is says its name.
    if (!arch.empty() && artifact.empty()) out.insert(out.end(), {"--arch", arch});
    if (pull.force || !variable_of({"FORCE"}).empty()) out.emplace_back("--force");
    if (std::string codec = codec_of(pull.packing); !codec.empty()) out.insert(out.end(), {"--compression", codec});
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

/// This process becomes what writes `file`.
[[noreturn]] void write_file(const PullWords& pull, const std::string& file, const ApptainerSettings& settings) {
    std::vector<std::string> environment = environment_of_this_process();
    refuse_flags(pull, environment);
    if (struct stat st {}; !pull.force && variable_of({"FORCE"}).empty() && ::lstat(file.c_str(), &st) == 0)
        throw Error(
            cat("Image file already exists: \"", printable(file, 4096), "\" - will not overwrite; write --force"));
    std::vector<std::string> words = words_of(pull, file);
    if (settings.loudness <= Loudness::quiet) words.emplace_back("--quiet");
    tell_of_places(environment, !pull.tmpdir.empty(), settings);
    // Apptainer's standard output stays empty.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    plan::Site site = site_of_caller();
    plan::Caller caller = caller_of_this_process();
    if (std::string note = note_on_store(site, caller); !note.empty()) tell_info(settings, note);
    store::Store store = open_store(site, caller);
    for (const std::string& line : store.refused()) tell_warning(settings, line);
    bool of_artifact = !apptainer::artifact_of(pull.words.back()).empty();
    exec_pull_program(pull_program_words(of_artifact ? "sif" : "import", site, store, words));
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
    CommandLine line("Write an image as a SIF file.", "apptainer pull");
    PullWords pull;
    declare_pull(line, pull);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (pull.words.size() > 2) throw Error("apptainer pull: there are more words than [FILE] URI");
    write_file(pull, file_of(pull), settings);
}

int apptainer_build(int argc, char** argv, const ApptainerSettings& settings) {
    CommandLine line("Write an image, a file or a directory as a SIF file.", "apptainer build");
    PullWords pull;
    declare_both(line, pull);
    line.option("--mksquashfs-args", pull.packing, "of mksquashfs: \"-comp gzip\", zstd or lz4; gzip without it");
    line.flag("-f,--fakeroot", pull.accepted, "accepted: nothing of it needs root").hidden();
    line.flag("--fix-perms", pull.accepted, "accepted: modes are the image's").hidden();
    line.flag("-T,--notest", pull.accepted, "accepted: no tests are run").hidden();
    line.argument("FILE SOURCE", pull.words,
                  "SOURCE: docker://NAME[:TAG], oci:DIR, oci-archive:FILE, docker-archive:FILE, a SIF or squashfs "
                  "file, a directory")
        .required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (pull.words.size() != 2) throw Error("apptainer build: write the file to make and what it is made of");
    if (is_definition(pull.words[1]))
        throw Error(cat("apptainer build: ", printable(pull.words[1], 4096), ": images are not built of definition ",
                        "files; build one with podman or docker in a job (conf/examples/build.sbatch), or with ",
                        "Apptainer where it is installed"));
    write_file(pull, pull.words[0], settings);
}

int apptainer_inspect(int argc, char** argv, const ApptainerSettings& settings) {
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
    line.flag("--list-apps", asked.apps, "the names of its apps");
    line.option("--app", asked.app, "what this app in it says of itself");
    line.flag("--all", asked.all, "all of it, of each app too, as JSON");
    line.flag("-j,--json", asked.json, "print JSON");
    line.argument("IMAGE", image, "a SIF or squashfs file, or a directory").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    std::string file = opened_as(apptainer::image_of(image), settings);
    if (!apptainer::is_file(file))
        throw Error(cat("apptainer inspect ", printable(image, 4096),
                        ": it is no file; pull it first, by apptainer pull, and name the file"));
    // Nothing of the image runs, so that it needs no shell.
    ContainerImage opened = open_image_file(path_from(caller_of_this_process().cwd, file));
    ImageFiles files(opened);
    std::string out = apptainer::inspected(asked, {[&](const std::string& path) { return files.text(path); },
                                                   [&](const std::string& path) { return files.names(path); }});
    std::fputs(out.c_str(), stdout);
    return 0;
}

int apptainer_cache(int argc, char** argv, const ApptainerSettings&) {
    return either(argc, argv, "list", cache_list, "clean", cache_clean, "; both are about Berth's store");
}

int apptainer_registry(int argc, char** argv, const ApptainerSettings&) {
    return either(argc, argv, "login", registry_login, "logout", registry_logout, "");
}

}  // namespace berth::cli
