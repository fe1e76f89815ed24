// Small files of an image, read without running anything of it.
#include <filesystem>
#include <fstream>

#include "runtime/images/file.hh"
#include "runtime/images/image_files.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

namespace fs = std::filesystem;
using namespace berth;

namespace {

using Links = std::vector<std::pair<std::string, std::string>>;

/// Path and target: within the image, out of it, and without an end.
const Links links = {{"etc/absolute", "/usr/word"}, {"etc/relative", "../usr/word"},
                     {"etc/above", "../../../usr/word"}, {"etc/loop", "loop"},
                     {"etc/round", "/etc/back"}, {"etc/back", "round"},
                     {"etc/folder", "/usr"}, {"etc/dangling", "/no/such"},
                     {"etc/node", "/../../../etc/passwd"}};

/// The same files as a squashfs file and as a directory.
struct Scene {
    fixtures::TempFolder folder;
    std::string file = folder / "image.sqsh", directory = folder / "root";
    std::string large = std::string((1 << 20) + 1, 'x');

    Scene() {
        Fd out = folder.create("image.sqsh");
        squash::LayerWriter writer(out.get(), {});
        fs::create_directories(directory + "/usr");
        fs::create_directories(directory + "/etc");
        const std::pair<std::string, std::string> files[] = {
            {"usr/word", "word"}, {"usr/empty", ""}, {"usr/large", large}};
        for (const auto& [path, content] : files) {
            writer.begin_file(path, {.mode = 0600, .xattrs = {}});
            writer.append(content);
            writer.end_file();
            std::ofstream(directory + "/" + path) << content;
        }
        for (const auto& [path, target] : links) {
            writer.add_symlink(path, {.mode = 0777, .xattrs = {}}, target);
            fs::create_symlink(target, directory + "/" + path);
        }
        writer.finish();
    }
};

}  // namespace

TEST_CASE("images: files of an image are read, links followed within it", "[images]") {
    Scene scene;
    bool is_directory = GENERATE(false, true);
    std::string path = is_directory ? scene.directory : scene.file;
    ContainerImage image = open_image_file(path);
    ImageFiles files(image);
    for (const char* name : {"/usr/word", "usr//./word", "/etc/../usr/word", "/etc/absolute", "/etc/relative",
                             "/etc/above", "/etc/folder/word"})
        CHECK(files.text(name) == "word");
    for (const char* name : {"/usr/empty", "/usr/large", "/usr", "/usr/word/x", "/no", "/etc/loop", "/etc/round",
                             "/etc/dangling", "/etc/node", "/"})
        CHECK(files.text(name).empty());
    CHECK(files.names("/etc/folder") == std::vector<std::string>{"empty", "large", "word"});
    CHECK(files.names("/").size() == 2);
    for (const char* name : {"/usr/word", "/no", "/etc/loop", "/etc/dangling"}) CHECK(files.names(name).empty());
}
