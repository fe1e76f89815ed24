// Environment files on disk: the order of the folders, and what is no file to be read.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/environments.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using Catch::Contains;

namespace {

/// A home, and a folder of the site.
struct Folders {
    fixtures::TempFolder root;
    std::string own = root / "home/.config/berth/environments", edf = root / "home/.edf", sites = root / "site";
    plan::Site site;
    plan::Caller caller;
    std::vector<std::string> environment = {"HOME=" + (root / "home")};

    Folders() {
        for (const std::string& folder : {own, edf, sites}) std::filesystem::create_directories(folder);
        site.site.environments = sites;
    }
    void write(const std::string& path, const std::string& text) const { std::ofstream(path) << text; }
    std::string image_of(const std::string& name) const {
        plan::Definition found = read_environment(name, site, caller, environment).definition;
        const std::string* image = plan::given(found.options, "container-image");
        return image != nullptr ? *image : "";
    }
};

}  // namespace

TEST_CASE("environments: the user's folder comes before CSCS' and the site's", "[environment]") {
    Folders here;
    here.write(here.sites + "/ml.toml", "image = \"sites\"");
    CHECK(here.image_of("ml") == "sites");
    here.write(here.edf + "/ml.toml", "image = \"edf\"");
    CHECK(here.image_of("ml") == "edf");
    here.write(here.own + "/ml.toml", "image = \"own\"\n");
    CHECK(here.image_of("ml") == "own");
    CHECK(here.image_of(here.sites + "/ml.toml") == "sites");

    std::vector<std::string> folders = environment_folders(here.site, here.caller, here.environment);
    CHECK(folders == std::vector<std::string>{here.own, here.edf, here.sites});
    std::vector<ListedEnvironment> listed = list_environments(folders);
    REQUIRE(listed.size() == 3);
    CHECK((!listed[0].hidden && listed[1].hidden && listed[2].hidden));

    here.environment.push_back("EDF_PATH=/one:relative:/two");
    here.environment.push_back("XDG_CONFIG_HOME=/config");
    here.site.site.environments.clear();
    CHECK(environment_folders(here.site, here.caller, here.environment) ==
          std::vector<std::string>{"/config/berth/environments", "/one", "/two"});
    CHECK(environment_folders(here.site, {}, {}).empty());
}

TEST_CASE("environments: a base is found by the same rules", "[environment]") {
    Folders here;
    here.write(here.sites + "/common.toml", "image = \"sites\"\n[env]\nA = \"1\"\n");
    here.write(here.own + "/ml.toml", "base = \"common\"");
    CHECK(here.image_of("ml") == "sites");
    here.write(here.own + "/file.toml", cat("base = \"", here.sites, "/common.toml\""));
    CHECK(here.image_of("file") == "sites");
}

TEST_CASE("environments: what is no file to be read is told in one line", "[environment]") {
    Folders here;
    CHECK_THROWS_WITH(here.image_of("none"),
                      Catch::Matchers::Equals(
                          cat("the environment none: there is no none.toml in ", here.own, ", ", here.edf, ", ",
                              here.sites, "; see berth environment list, or write a path as ./none.toml")));
    std::string missing = here.own + "/missing.toml";
    CHECK_THROWS_WITH(here.image_of(missing),
                      Catch::Matchers::Equals(cat("reading the environment ", missing, ": No such file or directory")));
    std::string pipe = here.own + "/pipe.toml";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_WITH(here.image_of("pipe"), Contains("it is no regular file"));
    CHECK_THROWS_WITH(here.image_of("/dev/zero"), Contains("it is no regular file"));
    std::filesystem::create_directory(here.own + "/folder.toml");
    CHECK_THROWS_WITH(here.image_of("folder"), Contains("it is no regular file"));
    std::filesystem::create_symlink("loop.toml", here.own + "/loop.toml");
    CHECK_THROWS_WITH(here.image_of(here.own + "/loop.toml"), Contains("symbolic links"));
    here.write(here.own + "/large.toml", std::string((64 << 10) + 1, '#'));
    CHECK_THROWS_WITH(here.image_of("large"), Contains("longer than the limit of 65536 bytes"));
    here.write(here.own + "/zeroes.toml", std::string(100, '\0'));
    CHECK_THROWS_WITH(here.image_of("zeroes"), Contains(here.own + "/zeroes.toml:1:"));
}
