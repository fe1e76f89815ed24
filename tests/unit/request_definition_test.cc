#include "runtime/base/error.hh"
#include "runtime/request/definition.hh"
#include "runtime/request/expand.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;
using Catch::Matchers::Equals;

namespace {

Definition definition() {
    return {.name = "my env",
            .options = {{"container-image", "debian:12"},
                        {"container-workdir", "/w"},
                        {"container-name", "dev"},
                        {"container-readonly", ""}},
            .mounts = {"/a:/b:ro", "/c:/d"},
            .variables = {"A=x y\n%", "B="},
            .devices = {"nvidia.com/gpu=0"},
            .replaced = {"container-entrypoint"}};
}

std::optional<std::string> lookup(const std::string& name) {
    if (name == "HOME") return "/home/${USER}";
    if (name == "EMPTY") return "";
    return std::nullopt;
}

}  // namespace

TEST_CASE("environment: a definition travels as one plain line", "[environment]") {
    std::string text = definition_text(definition());
    CHECK(text == "my%20env container-image=debian:12 container-workdir=/w container-name=dev container-readonly= "
                  "mount=/a:/b:ro mount=/c:/d variable=A=x%20y%0a%25 variable=B= device=nvidia.com/gpu=0 "
                  "replaced=container-entrypoint");
    CHECK(parse_definition(text) == definition());
}

TEST_CASE("environment: a definition counts for the environment that was asked for, and no other", "[environment]") {
    std::string value = definition_text(definition());
    std::vector<std::string> variables = {"A=1", std::string(definition_variable) + "=" + value};
    CHECK(definition_in(variables, "my env") == definition());
    CHECK_FALSE(definition_in(variables, "my"));
    CHECK_FALSE(definition_in(variables, "my env2"));
    CHECK_FALSE(definition_in({}, "my env"));
}

TEST_CASE("environment: what a definition should not have is refused", "[environment][release]") {
    for (const char* text : {"x ", "x  a=b", "x mount", "x mount=%", "x mount=%2", "x mount=%zz", "x mount=%00", "%00"})
        CHECK_THROWS_WITH(parse_definition(text), Equals("the environment that srun or sbatch read: it was changed on "
                                                         "its way"));
    CHECK_THROWS_WITH(parse_definition("x container-image=a container-image=b"), Contains("is given twice"));
    CHECK_THROWS_WITH(parse_definition("x new=1"), Contains("the berth of this node does not know 'new' of it"));
    Definition large = definition();
    large.variables.assign(2, "A=" + std::string(60'000, 'x'));
    CHECK_THROWS_WITH(definition_text(large), Contains("has more than 100 KiB"));
}

TEST_CASE("environment: flags win, and fill up what the file has", "[environment]") {
    Request request = request_of({{"container-image", "alpine"},
                                  {"container-writable", ""},
                                  {"container-mounts", "/mine:/b,/own:/own"}});
    complete(request, definition());
    CHECK(request.image_text() == "alpine");
    CHECK(request.writable == true);
    CHECK(request.workdir == "/w");
    CHECK(request.name->name == "dev");
    CHECK_FALSE(request.remap_root);
    CHECK(request.mount_texts == std::vector<std::string>{"/c:/d", "/mine:/b,/own:/own"});
    REQUIRE(request.mounts.size() == 3);
    CHECK(request.mounts[0].source == "/c");
    CHECK(request.mounts[1].source == "/mine");
    CHECK(request.variables == definition().variables);
    CHECK(request.devices == definition().devices);
}

TEST_CASE("environment: one that is named by a flag counts more than what a surrounding job says", "[environment]") {
    GivenOptions given = {
        {"container-image", "of-the-job"}, {"container-writable", ""}, {"container-workdir", "/mine"}};
    const GivenOptions from_slurm = given;
    const GivenOptions flags = {{"container-workdir", "/mine"}};
    Definition file = definition();
    file.replaced.clear();
    replace_options(given, file, flags);
    CHECK(given == flags);
    // The file says read-only, which is the opposite of the job's.
    CHECK(file.replaced == std::vector<std::string>{"container-image", "container-writable"});
    GivenOptions on_node = from_slurm;
    remove_replaced(on_node, file);
    CHECK(on_node == flags);
}

TEST_CASE("environment: ${VAR} as in CSCS' files", "[environment]") {
    CHECK(expanded("${HOME}/x", lookup) == "/home/${USER}/x");
    CHECK(expanded("$${HOME} $HOME $ a$$b", lookup) == "${HOME} $HOME $ a$b");
    CHECK(expanded("${EMPTY}|${EMPTY:-e}|${NONE:-}|${NONE:-/a b}", lookup) == "|e||/a b");
    CHECK_THROWS_WITH(expanded("${NONE}", lookup), Contains("the variable NONE is not set"));
    CHECK_THROWS_WITH(expanded("${HOME", lookup), Contains("left open"));
    for (const char* bad : {"${}", "${1A}", "${A=b}", "${A,B}"})
        CHECK_THROWS_WITH(expanded(bad, lookup), Contains("names no variable"));
}

TEST_CASE("environment: --container-name= takes the file's out", "[environment]") {
    Definition file;
    file.options = {{"container-image", "debian"}, {"container-workdir", "/srv"}};
    remove_unwanted(file, {{"container-name", "dev"}, {"container-workdir", "/tmp"}});
    CHECK(file.options.size() == 2);
    remove_unwanted(file, {{"container-image", ""}});
    CHECK(file.options == GivenOptions{{"container-workdir", "/srv"}});
}
