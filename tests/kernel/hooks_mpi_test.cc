// The node's MPI in real containers as an ordinary user: in the scenes as files, and with a program that a compiler has
// linked with the image's.
#include <cstdlib>

#include "tests/fixtures/mpi_scenes.hh"
#include "tests/kernel/hooks_start.hh"
#include "tests/kernel/programs.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

namespace {

plan::Site site_with(const plan::MpiSettings& settings) {
    plan::Site site;
    site.mpi = settings;
    return site;
}

/// The mounts of a plan whose targets are not what the node has there.
std::string wrong_mounts(const plan::ContainerEdits& made, const std::map<std::string, std::string>& node) {
    std::string out;
    for (const plan::Edit& edit : made.edits) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        auto content = mount ? node.find(mount->source) : node.end();
        if (content != node.end() && slurp(mount->target) != content->second) out += mount->target + " ";
        if (const auto* link = std::get_if<plan::Symlink>(&edit.action))
            if (slurp(link->path) != slurp(link->target)) out += link->path + " ";
    }
    return out;
}

/// Shared libraries and programs that the test's user makes.
class Workshop {
  public:
    void build(const std::string& output, const std::string& source, const std::string& words) const {
        std::string folder = output.substr(0, output.rfind('/'));
        std::filesystem::create_directories(folder);
        std::ofstream(output + ".c") << source;
        std::string command = cat("gcc -O1 -o ", output, " ", output, ".c ", words);
        if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
    }
    void library(const std::string& output, const std::string& soname, const std::string& source,
                 const std::string& words = "") const {
        build(output, source, cat("-shared -fPIC -Wl,-soname,", soname, " ", words));
    }
};

/// A file of this machine for an image, at the same path.
void take_along(squash::LayerWriter& writer, std::set<std::string>& folders, const std::string& path,
                const std::string& content) {
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
        if (std::string folder = path.substr(1, at - 1); folders.insert(folder).second)
            writer.add_directory(folder, {});
    add_file(writer, path.substr(1), content, 0755);
}

/// An image with a program, its libraries, and this machine's C library.
ContainerImage image_with(const std::map<std::string, std::string>& files, const std::string& folder) {
    Fill fill = [&](squash::LayerWriter& writer) {
        fill_sample(writer);
        std::set<std::string> folders = {"etc", "bin"};
        hooks::DirectoryRootfs root("/");
        hooks::ImageLibraries libraries(root, {});
        take_along(writer, folders, folder + "libc.so.6", slurp(libraries.find("libc.so.6").at(0).file));
        for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"})
            if (root.exists(loader)) take_along(writer, folders, loader, slurp(loader));
        if (root.exists("/etc/debian_version")) add_file(writer, "etc/debian_version", "12\n");
        for (const auto& [path, file] : files) take_along(writer, folders, path, slurp(file));
        writer.add_symlink((folder + "libmpi.so.12").substr(1), {}, "libmpi.so.12.1.0");
    };
    return make_image(fill);
}

constexpr const char* asking = R"(
extern const char* MPI_Which(void);
extern int puts(const char*);
int main(void) { return puts(MPI_Which()) < 0; }
)";
constexpr const char* of_image = R"(const char* MPI_Which(void) { return "the image's"; })";
constexpr const char* of_node = R"(
extern const char* fabric(void);
const char* MPI_Which(void) { return fabric(); }
)";
constexpr const char* of_fabric = R"(const char* fabric(void) { return "the node's"; })";
constexpr const char* without_function = R"(const char* MPI_Other(void) { return "another's"; })";

}  // namespace

TEST_CASE("each scene of MPI has the node's libraries in the container, or the image's own", "[kernel][hooks][mpi]") {
    NEED_CONTAINERS();
    for (const MpiScene& scene : mpi_scenes()) {
        INFO(scene.name);
        FakeHost host;
        fill_node(host, scene);
        give_to_user(host);
        std::map<std::string, std::string> node;
        for (const ImageFile& one : scene.node)
            if (!one.link_to) node[host.path() + one.path] = one.content;
        plan::Site site = site_with(mpi_settings(scene));
        if (scene.asked) site.origins["mpi.replace"] = {"", 0, "BERTH_MPI_REPLACE", true};
        ContainerImage image = image_of(scene.variables, scene.image);
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [&](const plan::ContainerEdits& made) {
                return cat(mpi_edits_text(made, host.path()), "|", wrong_mounts(made, node), "|");
            };
            std::string text = started(host, site, std::move(image), {}, look, warnings);
            return text + warnings_text(warnings);
        });
        check(seen, "", cat(scene.edits, "||"), scene.warning);
    }
}

TEST_CASE("a program of an image runs with the node's MPI and what that needs, where it fits", "[kernel][hooks][mpi]") {
    NEED_CONTAINERS();
    FakeHost host;
    FakeFolder built;
    Workshop workshop;
    const std::string node = host.path() + mpi_folder, old = built.path() + "/libmpi.so.12.1.0";
    workshop.library(old, "libmpi.so.12", of_image);
    workshop.build(built.path() + "/ask", asking, old);
    workshop.library(node + "libfabric.so.1.15.0", "libfabric.so.1", of_fabric);
    workshop.library(node + "libmpi.so.12.4.0", "libmpi.so.12", of_node, node + "libfabric.so.1.15.0");
    workshop.library(node + "libmpi.so.12.0.0", "libmpi.so.12", without_function);
    give_to_user(host);
    hooks::DirectoryRootfs root("/");
    std::string libc = hooks::ImageLibraries(root, {}).find("libc.so.6").at(0).file,
                folder = libc.substr(0, libc.rfind('/') + 1);
    auto said = [&](bool replace, const std::string& library) {
        plan::MpiSettings settings;
        settings.replace = replace;
        settings.libraries = {mpi_folder + library};
        settings.dependencies = {mpi_folder + "libfabric.so.1.15.0"};
        ContainerImage image =
            image_with({{"/bin/ask", built.path() + "/ask"}, {folder + "libmpi.so.12.1.0", old}}, folder);
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [](const plan::ContainerEdits&) { return output_of({"/bin/ask"}); };
            std::string text = started(host, site_with(settings), std::move(image), {}, look, warnings);
            return text + warnings_text(warnings);
        });
        return seen.error + seen.text;
    };
    CHECK(said(false, "libmpi.so.12.4.0") == "the image's\n|0");
    CHECK(said(true, "libmpi.so.12.4.0") == "the node's\n|0");
    CHECK_THAT(said(true, "libmpi.so.12.0.0"),
               Catch::StartsWith("the image's\n|0\nwarning: the container has the image's own MPI: ") &&
                   Catch::Contains("it lacks 1 of its functions, such as MPI_Which"));
}
