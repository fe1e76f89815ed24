#include "runtime/request/reference.hh"

#include "runtime/base/error.hh"
#include "tests/catch.hh"

using berth::plan::cut_image_mistake;
using berth::plan::parse_reference;
using berth::plan::Reference;
using Catch::Contains;

namespace {

const std::string hex(64, 'a');

std::string failure(const std::string& text) {
    try {
        parse_reference(text);
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

/// The column of the caret in the message, counted from the start of the input.
size_t caret(const std::string& text) {
    std::string message = failure(text);
    return message.size() - 1 - message.rfind('\n') - 3;
}

}  // namespace

TEST_CASE("references are read by the distribution grammar", "[request][reference]") {
    struct Row {
        const char* text;
        const char* user;
        const char* registry;
        const char* name;
        const char* tag;
    };
    const Row rows[] = {
        {"ubuntu", "", "registry-1.docker.io", "library/ubuntu", "latest"},
        {"docker://ubuntu:24.04", "", "registry-1.docker.io", "library/ubuntu", "24.04"},
        {"docker.io/ubuntu", "", "registry-1.docker.io", "library/ubuntu", "latest"},
        {"index.docker.io/bitnami/x", "", "registry-1.docker.io", "bitnami/x", "latest"},
        {"docker.io#ubuntu:1", "", "registry-1.docker.io", "library/ubuntu", "1"},
        {"bitnami/redis:7", "", "registry-1.docker.io", "bitnami/redis", "7"},
        {"nvcr.io/nvidia/pytorch:24.01-py3", "", "nvcr.io", "nvidia/pytorch", "24.01-py3"},
        {"nvcr.io#nvidia/pytorch:24.01-py3", "", "nvcr.io", "nvidia/pytorch", "24.01-py3"},
        {"$oauthtoken@nvcr.io#nvidia/pytorch", "$oauthtoken", "nvcr.io", "nvidia/pytorch", "latest"},
        {"docker://alice@NVCR.io#a/b", "alice", "nvcr.io", "a/b", "latest"},
        {"alice@ubuntu:22.04", "alice", "registry-1.docker.io", "library/ubuntu", "22.04"},
        {"localhost/x", "", "localhost", "x", "latest"},
        {"host#x", "", "host", "x", "latest"},
        {"127.0.0.1:5000/debian:12", "", "127.0.0.1:5000", "debian", "12"},
        {"localhost:5000#debian:12", "", "localhost:5000", "debian", "12"},
        {"my_registry.site:5000/a", "", "my_registry.site:5000", "a", "latest"},
        {"_r_#a:1", "", "_r_", "a", "1"},
        {"oauth2accesstoken@gcr.io#p/a", "oauth2accesstoken", "gcr.io", "p/a", "latest"},
        {"[::1]:5000/debian:12", "", "[::1]:5000", "debian", "12"},
        {"r.io/a__b/c-d---e/f.g_h:_T.1", "", "r.io", "a__b/c-d---e/f.g_h", "_T.1"},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        Reference got = parse_reference(row.text);
        CHECK(got.kind == Reference::Kind::registry);
        CHECK(got.user == row.user);
        CHECK(got.registry == row.registry);
        CHECK(got.name == row.name);
        CHECK(got.tag == row.tag);
        CHECK_FALSE(got.digest);
        CHECK(parse_reference(got.text()).text() == got.text());
    }
}

TEST_CASE("a digest may stand alone or beside a tag", "[request][reference]") {
    Reference alone = parse_reference("r.io/a@sha256:" + hex);
    CHECK(alone.tag.empty());
    CHECK(alone.digest == "sha256:" + hex);
    CHECK(alone.text() == "r.io/a@sha256:" + hex);
    Reference both = parse_reference("bob@r.io#a:1@sha256:" + hex);
    CHECK(both.user == "bob");
    CHECK(both.tag == "1");
    CHECK(both.text() == "r.io/a:1@sha256:" + hex);
    CHECK(parse_reference("ubuntu@sha256:" + hex).user.empty());
}

TEST_CASE("paths are taken as given", "[request][reference]") {
    for (const char* path : {"/a/b.sqsh", "./x.sqsh", "../x", ".", "..", ".cache/x.sqsh", ".x", "...", "..x"}) {
        Reference got = parse_reference(path);
        CHECK(got.kind == Reference::Kind::path);
        CHECK(got.path == path);
        CHECK(got.text() == path);
    }
    CHECK(berth::plan::looks_like_image_file("x.sqsh"));
    CHECK(berth::plan::looks_like_image_file("tool.sif"));
    CHECK(berth::plan::looks_like_image_file("image.tar.gz"));
    CHECK_FALSE(berth::plan::looks_like_image_file("./x.sqsh"));
    CHECK_FALSE(berth::plan::looks_like_image_file("ubuntu"));
    CHECK(berth::plan::image_file_mistake("x.sqsh").find("write ./x.sqsh") != std::string::npos);
}

TEST_CASE("the sources of this node: a path up to the first colon, and what is chosen in it", "[request][reference]") {
    using Kind = Reference::Kind;
    struct Row {
        std::string text;
        Kind kind;
        std::string path, selector;
    };
    const Row rows[] = {{"oci:dir", Kind::oci, "dir", ""},
                        {"oci:./a/dir:v1/x@y:2", Kind::oci, "./a/dir", "v1/x@y:2"},
                        {"oci-archive:/a.tar:@sha256:" + std::string(64, 'a'), Kind::oci_archive, "/a.tar",
                         "@sha256:" + std::string(64, 'a')},
                        {"docker-archive:../a.tar", Kind::docker_archive, "../a.tar", ""},
                        {"docker-archive:a.tar:debian:12", Kind::docker_archive, "a.tar", "debian:12"},
                        {"dockerd://r.io/a/b:2", Kind::dockerd, "", "r.io/a/b:2"},
                        {"podman://debian", Kind::podman, "", "debian"}};
    for (const Row& row : rows) {
        INFO(row.text);
        Reference got = parse_reference(row.text);
        CHECK(got.kind == row.kind);
        CHECK(got.path == row.path);
        CHECK(got.selector == row.selector);
        CHECK(got.text() == row.text);
        CHECK(got.has_path() == !row.path.empty());
    }
    CHECK(parse_reference("docker-archive:a.tar:debian").tag == "latest");
    CHECK(parse_reference("docker-archive:a.tar:debian").name == "library/debian");
    CHECK(berth::plan::with_absolute_path(parse_reference("oci:a:b"), "/w", "/h").text() == "oci:/w/a:b");
    CHECK(berth::plan::with_absolute_path(parse_reference("/x.sqsh"), "/w", "/h").path == "/x.sqsh");
    CHECK(berth::plan::with_absolute_path(parse_reference("./x.sqsh"), "/w", "/h").path == "/w/x.sqsh");
    CHECK(berth::plan::with_absolute_path(parse_reference(".//./x"), "/w", "/h").path == "/w/x");
    CHECK(berth::plan::with_absolute_path(parse_reference("./"), "/w", "/h").path == "/w");
    CHECK(berth::plan::with_absolute_path(parse_reference("../x"), "/", "/h").path == "/../x");
    CHECK(berth::plan::with_absolute_path(parse_reference("r.io/a:b"), "/w", "/h").text() == "r.io/a:b");
}

TEST_CASE("hostile row 28: a digest is sha256 and 64 lower-case digits before any path or URL",
          "[request][reference]") {
    CHECK(failure("r.io/a@sha256:../../x").find("hexadecimal") != std::string::npos);
    CHECK(caret("r.io/a@sha256:../../x") == 14);
    CHECK(failure("a@sha256:" + std::string(64, 'A')).find("lower-case") != std::string::npos);
    CHECK(failure("a@sha256:abc").find("64 digits") != std::string::npos);
    CHECK(failure("a@sha256:" + hex + "0").find("64 digits") != std::string::npos);
    CHECK(failure("a@SHA256:" + hex).find("sha256:") != std::string::npos);
    CHECK(failure("a@sha512:" + hex + hex).find("sha256:") != std::string::npos);
    CHECK(failure("a@md5:" + hex).find("sha256:") != std::string::npos);
    CHECK(failure("a@sha256:").find("64 digits") != std::string::npos);
    CHECK_FALSE(berth::Digest::parse("sha256:../../x"));
    CHECK_FALSE(berth::Digest::parse("sha256:" + std::string(64, 'A')));
    CHECK_FALSE(berth::Digest::parse("sha256:" + hex + "\n"));
    CHECK(berth::Digest::parse("sha256:" + hex));
}

TEST_CASE("a password in a reference is refused, and is not in the error", "[request][reference]") {
    for (const char* text : {"alice:s3cret@r.io#a", "docker://alice:s3cret@r.io/a:1", "alice:s3cret@debian"}) {
        std::string error = failure(text);
        INFO(text);
        CHECK_THAT(error, Catch::Contains("a password before `@` can be read by everybody") &&
                              Catch::Contains("write alice@ alone") && Catch::Contains(".credentials"));
        CHECK_THAT(error, !Catch::Contains("s3cret"));
    }
    // With an empty password, as with a token.
    CHECK_THAT(failure("oauth2accesstoken:ya29.xyz@gcr.io/p/a"), Catch::Contains("write oauth2accesstoken@ alone"));
}

TEST_CASE("a reference keeps what was written, for messages, whatever becomes of its path", "[request][reference]") {
    Reference tag = parse_reference("docker://me@Localhost:5000/a");
    CHECK(tag.written == "docker://me@Localhost:5000/a");
    CHECK(tag.text() == "localhost:5000/a:latest");
    Reference file = with_absolute_path(parse_reference("./x.sqsh"), "/work", "/home/al");
    CHECK(file.written == "./x.sqsh");
    CHECK(file.path == "/work/x.sqsh");
}

TEST_CASE("mistakes in a reference are pointed at", "[request][reference]") {
    struct Row {
        const char* text;
        size_t caret;
        const char* word;
    };
    const Row rows[] = {
        {"Ubuntu", 0, "lower-case"},
        {"r.io/a/../b", 7, "starts with"},
        {"r.io/a//b", 7, "empty"},
        {"r.io/a/", 7, "empty"},
        {"r.io/-a", 5, "starts with"},
        {"r.io/a-", 6, "ends with"},
        {"r.io/a..b", 7, "separators"},
        {"r.io/a___b", 7, "separators"},
        {"r.io/a:", 7, "tag is empty"},
        {"r.io/a:.b", 7, "tag starts"},
        {"r.io/a:b c", 8, "tag"},
        {"r.io:99999/a", 5, "port"},
        {"r.io:x/a", 5, "port"},
        {"r..io/a", 2, "empty"},
        {"-r.io/a", 0, "start"},
        {"r+.io/a", 1, "host name"},
        {"#a", 0, "registry is empty"},
        {"@r.io#a", 0, "login name"},
        {"[::1/a", 0, "IPv6"},
        {"oci:", 4, "path is missing"},
        {"oci:dir:", 8, "without the colon"},
        {"oci:dir:a b", 9, "character"},
        {"oci-archive:x.tar:a%b", 19, "character"},
        {"docker-archive:x.tar:UP", 21, "lower-case"},
        {"podman://", 9, "empty"},
        {"dockerd://a:b c", 13, "character"},
        {"docker-daemon:x", 0, "dockerd://"},
        {"http://r.io/a", 0, "unknown kind"},
        {"docker:///a", 9, "empty"},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        CHECK(caret(row.text) == row.caret);
        CHECK_THAT(failure(row.text), Catch::Contains(row.word));
    }
    CHECK_FALSE(failure("").empty());
    CHECK_FALSE(failure(std::string("a\0b", 3)).empty());
    CHECK_FALSE(failure("r.io/" + std::string(256, 'a')).empty());
    CHECK_FALSE(failure("a:" + std::string(129, 'a')).empty());
    CHECK(failure("a\x1b[31m").find('\x1b') == std::string::npos);
}

TEST_CASE("a registry without an image is what Slurm leaves of REGISTRY#IMAGE", "[plan][reference]") {
    for (const char* cut : {"nvcr.io", "docker://nvcr.io", "$oauthtoken@nvcr.io", "docker://me@ghcr.io",
                            "registry.example.com:5000", "127.0.0.1:5000"})
        CHECK_THAT(cut_image_mistake(cut), Contains("Slurm cuts the value of an #SBATCH line at #"));
    CHECK_THAT(cut_image_mistake("docker://$oauthtoken@nvcr.io"), Contains("or write nvcr.io/IMAGE:TAG"));
    for (const char* fine : {"ubuntu:24.04", "debian:12", "alpine", "nvcr.io/nvidia/pytorch:24.01-py3",
                             "nvcr.io#nvidia/pytorch:24.01-py3", "me@debian:12.1", "x.sqsh", "x.sif", "x.simg", "./a.b",
                             "/a.b", "../a.b", "dockerd://a.b/c", "oci:./x.y", ""})
        CHECK(cut_image_mistake(fine) == "");
    CHECK(cut_image_mistake("a.b@sha256:" + std::string(64, '0')) == "");
}
