// `enroot import`, `digest` and `load`: images of registries and of docker's and podman's storage.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/enroot/create.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/enroot/names.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/plan/platform.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

constexpr const char* arch_help = "architecture of the image, by uname -m or as Debian writes it; that of this node";
constexpr const char* uri_help =
    "docker://[USER@][REGISTRY#]NAME[:TAG], dockerd://NAME[:TAG], podman://NAME[:TAG], or a file: a squashfs file, an "
    "archive";

bool is_file(const std::string& uri) {
    struct stat info {};
    return uri.find("://") == uri.npos && ::stat(uri.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// A container runs here.
void check_architecture(const std::string& wanted) {
    std::string word = wanted == "x86_64" ? "amd64" : wanted == "aarch64" ? "arm64" : wanted;
    if (wanted.empty() || word == plan::machine_architecture) return;
    throw Error(cat("--arch ", printable(wanted), ": a container is made for this node's architecture, which is ",
                    plan::machine_architecture, "; write a file for the other one by enroot import --arch"),
                1);
}

void check_new_file(const std::string& file, bool force) {
    if (struct stat st {}; !force && ::lstat(file.c_str(), &st) == 0)
        throw Error(cat("File already exists: ", printable(std::filesystem::absolute(file).string(), 4096),
                        "; remove it, or set ENROOT_FORCE_OVERRIDE=yes"),
                    1);
}

/// "--plain-http HOST" where the user's setting asks for that.
std::vector<std::string> transport(const enroot::Settings& settings, const plan::Reference& image) {
    bool plain = settings.allow_http && image.kind == plan::Reference::Kind::registry;
    return plain ? std::vector<std::string>{"--plain-http", image.registry} : std::vector<std::string>{};
}

}  // namespace

int enroot_import(int argc, char** argv) {
    CommandLine line("Write an image as a squashfs file.", "enroot import");
    std::string uri, file, arch;
    line.option("-a,--arch", arch, arch_help);
    line.option("-o,--output", file, "the file to write; without it NAME+TAG.sqsh").completed_by(Completion::files);
    line.argument("URI", uri, uri_help).required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    // Files are no images of Enroot's, but what its users have at hand.
    if (is_file(uri)) uri = enroot::path_of_file(uri);
    bool of_file = uri.starts_with('/') || uri.starts_with('.');
    plan::Reference image = of_file ? plan::parse_reference(uri) : enroot::image_of(uri);
    if (file.empty()) file = (of_file ? enroot::base_name_of_file(uri) : enroot::base_name_of(image)) + ".sqsh";
    check_new_file(file, front.settings.force);
    std::vector<std::string> words = transport(front.settings, image);
    if (front.settings.force) words.push_back("--force");
    if (!arch.empty()) words.insert(words.end(), {"--arch", arch});
    words.insert(words.end(), {"--output", file, uri});
    // Enroot's standard output stays empty.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    become_pull_program("import", words);
}

int enroot_digest(int argc, char** argv) {
    CommandLine line("Print the digest of an image's manifest for one architecture.", "enroot digest");
    std::string uri, arch(plan::machine_architecture);
    line.option("-a,--arch", arch, arch_help);
    line.argument("URI", uri, "docker://[USER@][REGISTRY#]NAME[:TAG]").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    plan::Reference image = enroot::image_of(uri);
    if (image.kind != plan::Reference::Kind::registry)
        throw Error(cat(printable(uri, 4096), ": only registries are asked for a digest; write docker://NAME[:TAG]"),
                    1);
    std::vector<std::string> words = site_arguments();
    for (const auto& [host, registry] : front.site.registries)
        if (registry.plain_http) words.insert(words.end(), {"--plain-http", host});
    for (const std::string& word : transport(front.settings, image)) words.push_back(word);
    if (!image.user.empty()) words.insert(words.end(), {"--user", image.user});
    words.insert(words.end(), {"--resolve", "--arch", arch, image.text()});
    exec_pull_program(std::move(words));
}

int enroot_load(int argc, char** argv) {
    CommandLine line("Make a container of an image of a registry, without a file between.", "enroot load");
    std::string uri, name, arch;
    bool force = false;
    line.option("-a,--arch", arch, arch_help);
    line.option("-n,--name", name, "of the container; without it NAME+TAG").completed_by(Completion::containers);
    line.flag("-f,--force", force, "replace a container of that name");
    line.argument("URI", uri, "docker://[USER@][REGISTRY#]NAME[:TAG]").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    check_architecture(arch);
    plan::Reference image = enroot::image_of(uri);
    if (name.empty()) name = enroot::base_name_of(image);
    RunOptions options;
    options.request.image = image;
    create_container(front, name, force, options);
    return 0;
}

}  // namespace berth::cli
