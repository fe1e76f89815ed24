#include "runtime/base/error.hh"
#include "runtime/request/options.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/option_names.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;

TEST_CASE("options: a request is made of what was given", "[options]") {
    GivenOptions options;
    add_option(options, "container-readonly", "");
    add_option(options, "container-mounts", "/a:/b:ro");
    add_option(options, "container-image", "127.0.0.1:5000/debian:12");
    add_option(options, "container-env", "FOO,BAR");
    add_option(options, "container-workdir", "/w");
    add_option(options, "no-container-mount-home", "");
    add_option(options, "container-remap-root", "");
    CHECK(options.front().first == "container-image");

    Request request = request_of(options);
    CHECK(request.image_text() == "127.0.0.1:5000/debian:12");
    REQUIRE(request.mounts.size() == 1);
    CHECK(request.mounts[0].target == "/b");
    CHECK(request.env == std::vector<std::string>{"FOO", "BAR"});
    CHECK(request.workdir == "/w");
    CHECK(request.mount_home == false);
    CHECK(request.remap_root == true);
    CHECK(request.writable == false);
    CHECK(request_of({}).writable == std::nullopt);
}

TEST_CASE("options: mistakes name the option and show where", "[options]") {
    CHECK_THROWS_WITH(check_option("container-image", "Debian:12"), Contains("--container-image") && Contains("^"));
    CHECK_THROWS_WITH(check_option("container-mounts", "/a:b"), Contains("--container-mounts") && Contains("^"));
    CHECK_THROWS_WITH(check_option("container-workdir", ""), Contains("--container-workdir") && Contains("^"));
    CHECK_THROWS_WITH(check_option("container-env", "A,2B"), Contains("--container-env") && Contains("^"));
    CHECK_THROWS_AS(check_option("container-magic", ""), Error);
    CHECK_NOTHROW(check_option("container-writable", ""));
}

TEST_CASE("options: an empty image, name or environment means none, and nothing takes its place", "[options]") {
    CHECK(is_none("container-image", ""));
    CHECK(!is_none("container-image", "debian"));
    CHECK(!is_none("container-writable", ""));
    for (const char* name : {"container-image", "container-environment", "container-name"})
        CHECK_NOTHROW(check_option(name, ""));
    for (const char* name : {"container-mounts", "container-workdir", "container-env", "container-save"})
        CHECK_THROWS_AS(check_option(name, ""), Error);
    const GivenOptions none = {{"container-image", ""}};
    CHECK(!asks_for_container(none));
    CHECK(asks_for_container({{"container-image", ""}, {"container-name", "dev"}}));
    CHECK(!request_of(none).image);
    GivenOptions given = none;
    add_option_if_new(given, "container-image", "debian");
    add_environment_options(given, {"BERTH_CONTAINER_IMAGE=debian", "ENROOT_REMAP_ROOT=yes"});
    CHECK(given == none);
    CHECK(names_of(none).empty());
    // Who wants none needs no word about the rest of a surrounding job.
    CHECK(ignored_note({{"container-image", ""}, {"container-workdir", "/srv"}}).empty());
    CHECK_THAT(ignored_note({{"container-workdir", "/srv"}}), Contains("ignoring --container-workdir"));
}

TEST_CASE("options: names, files and namespaces", "[options]") {
    Request request = request_of({{"container-name", "dev:exec"},
                                  {"container-save", "out/dev.sqsh"},
                                  {"container-unshare", "uts,net"},
                                  {"no-container-entrypoint", ""},
                                  {"container-entrypoint-log", ""}});
    CHECK(request.name == ContainerName{"dev", NameMode::exec});
    CHECK(request.save == "out/dev.sqsh");
    CHECK((request.unshare.uts && request.unshare.net && !request.unshare.ipc));
    CHECK(request.entrypoint == false);
    CHECK(request.entrypoint_log);
    for (const char* path : {"", "/", "./", "/tmp/", ".", "a/.."})
        CHECK_THROWS_WITH(check_option("container-save", path), Contains("--container-save"));
    CHECK_THROWS_WITH(check_option("container-unshare", "net,foo"),
                      Contains("unknown namespace 'foo'") && Contains("^"));
    CHECK_THROWS_AS(check_option("container-unshare", "net,"), Error);
    CHECK_THROWS_WITH(check_option("container-name", "dev:attach"), Contains("--container-name") && Contains("^"));
}

TEST_CASE("options: twice with another value, and contradictions", "[options]") {
    GivenOptions options;
    add_option(options, "container-image", "a");
    CHECK_NOTHROW(add_option(options, "container-image", "a"));
    CHECK_THROWS_WITH(add_option(options, "container-image", "b"), Contains("--container-image is given twice"));
    add_option(options, "container-writable", "");
    CHECK_THROWS_WITH(add_option(options, "container-readonly", ""),
                      Contains("--container-writable") && Contains("--container-readonly"));
    add_option(options, "no-container-remap-root", "");
    CHECK_THROWS_AS(add_option(options, "container-remap-root", ""), Error);

    remove_option(options, "container-image");
    CHECK_NOTHROW(add_option(options, "container-image", "b"));

    GivenOptions nested = {{"container-image", "a"}, {"container-readonly", ""}};
    add_option_if_new(nested, "container-image", "outer");
    add_option_if_new(nested, "container-writable", "");
    add_option_if_new(nested, "container-workdir", "/w");
    CHECK(nested == GivenOptions{{"container-image", "a"}, {"container-workdir", "/w"}, {"container-readonly", ""}});
}

TEST_CASE("options: each row of the table can be used everywhere", "[options]") {
    for (const Option& option : option_table()) {
        INFO(option.name);
        CHECK(std::string(option.name).starts_with("container-"));
        CHECK((option.set == nullptr) != (option.choose == nullptr));
        CHECK((option.argument != nullptr) == (option.set != nullptr));
        CHECK(option.usage != nullptr);
        CHECK((option.opposite == nullptr || option.choose != nullptr));
        CHECK((option.opposite == nullptr) == (option.opposite_usage == nullptr));
        CHECK((option.run.names == nullptr) == (option.run.help == nullptr));
        CHECK((option.run.opposite_names == nullptr || option.opposite != nullptr));
        CHECK((option.run.words.empty() || option.record.add_text != nullptr));
        CHECK((option.record.key == nullptr) == (option.record.texts == nullptr));
        CHECK((option.record.key == nullptr) == (option.record.add_text == nullptr));
        CHECK((option.record.key == nullptr || option.record.texts(Request()).empty()));
        REQUIRE(srun_option(option.name) != nullptr);
        CHECK(srun_option(option.name)->option == &option);
    }
    CHECK(srun_option("no-container-remap-root")->option == srun_option("container-remap-root")->option);
    CHECK(srun_option("no-container-image") == nullptr);
}

TEST_CASE("options: without an image the others are ignored aloud", "[options]") {
    CHECK(ignored_note({}).empty());
    CHECK(ignored_note({{"container-image", "a"}, {"container-env", "A"}}).empty());
    CHECK(ignored_note({{"container-env", "A"}, {"container-readonly", ""}}) ==
          "ignoring --container-env, --container-readonly: there is none of --container-image, "
          "--container-name and --container-environment");
    CHECK(ignored_note({{"container-name", "a"}, {"container-env", "A"}}).empty());
}
