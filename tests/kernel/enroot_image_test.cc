// Images that Enroot has made: the variables of /etc/environment, and what of /etc/fstab is mounted.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/images/enroot_image.hh"
#include "runtime/images/file.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

/// A root file system as Enroot leaves it, with these files.
void fill(Folder& folder, const std::string& environment, const std::string& fstab) {
    for (const char* name : {"root", "root/etc", "root/usr", "root/opt", "root/opt/data"}) folder.directory(name);
    std::filesystem::create_directory_symlink("usr/lib64", folder / "root/lib64");
    std::filesystem::create_directory_symlink("usr/lib", folder / "root/lib");
    std::filesystem::create_directory_symlink("/../../opt/data", folder / "root/opt/link");
    folder.file("root/opt/data/x", "of the image\n");
    folder.file("root/etc/rc", "if [ $# -gt 0 ]; then\n    exec \"$@\"\nfi\n");
    folder.file("root/etc/environment", environment);
    folder.file("root/etc/fstab", fstab);
}

/// The same as a squashfs file.
std::string squashed(const Folder& folder) {
    std::string out = folder / "image.sqsh";
    REQUIRE(std::system(cat("mksquashfs ", folder / "root", " ", out, " -quiet -no-progress -noappend > /dev/null")
                            .c_str()) == 0);
    return out;
}

}  // namespace

TEST_CASE("row 28: ${VAR} in /etc/environment of an image that Enroot made is the caller's", "[kernel][enroot]") {
    NEED_CONTAINERS();
    SiteScene scene;
    fill(scene.folder, "A=${WHERE}/x\nB=${NOT_SET}\nC=$WHERE ${1}\nD=a${NOT_SET}b\nE=\n", "");
    const std::string script = "echo \"$A|${B-unset}|$C|$D|${E-unset}\"";
    for (const std::string& image : {scene.folder / "root", squashed(scene.folder)}) {
        scene.image = image;
        CHECK(scene.shell("", script, {"WHERE=/here"}).text == "/here/x|unset|$WHERE ${1}|ab|\n|0");
    }
    // Without Enroot's script these are texts.
    std::filesystem::remove(scene.folder / "root/etc/rc");
    scene.image = scene.folder / "root";
    CHECK_THAT(scene.shell("", script, {"WHERE=/here"}).text, Contains("${WHERE}/x|${NOT_SET}|"));
}

TEST_CASE("row 28: of /etc/fstab of an image that Enroot made a tmpfs and binds inside the image are mounted",
          "[kernel][enroot]") {
    NEED_CONTAINERS();
    SiteScene scene;
    fill(scene.folder, "",
         "# a comment\n"
         "tmpfs /scratch tmpfs size=1m,mode=0700\n"
         "${ENROOT_ROOTFS}/opt/data /data none bind,ro\n"
         "${ENROOT_ROOTFS}/opt/link /linked none bind\n"
         "${ENROOT_ROOTFS}/../../../opt/data /up none rbind\n"
         "${ENROOT_ROOTFS}/missing /missing none bind,nofail\n"
         "/etc /stolen none bind\n"
         "${ENROOT_ROOTFS}x/etc /stolen none bind\n"
         "none /etc/hosts none x-detach\n"
         "UUID=1234 /boot ext4 defaults\n"
         "tmpfs / tmpfs size=1m\n");
    const std::string script =
        "stat -f -c %T /scratch; stat -c %a /scratch; cat /data/x /linked/x /up/x; touch /data/y || echo refused; "
        "ls -d /stolen /missing /boot; test -e /etc/hosts && echo hosts";
    for (const std::string& image : {scene.folder / "root", squashed(scene.folder)}) {
        scene.image = image;
        std::string seen = scene.shell("", script).text;
        CHECK_THAT(seen, Contains("tmpfs\n700\nof the image\nof the image\nof the image\n"));
        CHECK_THAT(seen, Contains("Read-only file system") && Contains("refused\n") && Contains("hosts\n|0"));
        for (const char* path : {"/stolen", "/missing", "/boot"})
            CHECK_THAT(seen, Contains(cat("cannot access '", path, "'")));
        for (const char* line : {"line 7,", "line 8,", "line 9,", "line 10,", "line 11,"})
            CHECK_THAT(seen, Contains(cat("warning: /etc/fstab of the image, ", line, " is left out: ")));
    }
}

TEST_CASE("hostile: an image's /etc/fstab that is too long, or has too many lines, ends and is named",
          "[kernel][enroot]") {
    Folder folder;
    std::string many, long_line(70'000, 'x');
    for (int i = 0; i < 200; ++i) many += cat("tmpfs /m", i, " tmpfs size=1m\n");
    auto seen_of = [&](const std::string& text) {
        std::filesystem::remove_all(folder / "root");
        fill(folder, "", text);
        return as_user([&] {
            std::vector<std::string> notes;
            std::vector<plan::ContainerEdits> edits;
            add_image_fstab(edits, open_image_file(folder / "root"), {},
                            [&](const std::string& line) { notes.push_back(line); });
            return cat(edits.empty() ? 0 : edits[0].edits.size(), " ", notes.size(), " ",
                       notes.empty() ? "" : notes.back());
        });
    };
    CHECK(seen_of(long_line).text == "0 1 warning: /etc/fstab of the image is left out: it has more than 65536 bytes");
    CHECK(seen_of(many).text ==
          "100 11 warning: /etc/fstab of the image: further lines that are left out are not named");
}
