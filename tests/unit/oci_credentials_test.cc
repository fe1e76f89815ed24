#include "runtime/oci/auth/credentials.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/auth/credentials_search.hh"
#include "runtime/oci/auth/credentials_store.hh"
#include "runtime/oci/auth/login_history.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/image/settings.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth::oci;
using berth::cat;
using berth::Error;
using Catch::Contains;

namespace {

std::string auth_entry(const std::string& host, const std::string& user, const std::string& password) {
    return cat("\"", host, R"(":{"auth":")", encode_base64(cat(user, ":", password)), "\"}");
}

std::string config_of(const std::string& entries) { return cat(R"({"auths":{)", entries, "}}"); }

/// The places, all in a folder of their own.
struct Home {
    berth::fixtures::TempFolder folder;
    CredentialPlaces places{folder / "auth", folder / "podman", folder / "docker", folder / "enroot",
                            cat("relative:", folder / "bin"), false, folder / "config"};

    Home() {
        for (const char* name : {"docker", "enroot", "bin"}) berth::sys::make_directories(folder / name, 0700);
    }
    void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
        std::ofstream(folder / name) << text;
        ::chmod((folder / name).c_str(), mode);
    }
    void helper(const std::string& name, const std::string& script) const {
        write("bin/docker-credential-" + name, "#!/bin/sh\n" + script, 0700);
    }
    CredentialSearch find(const std::string& host = "reg.io", const std::string& repository = "a/b",
                          const std::string& user = "") const {
        return find_credentials(places, {.host = host, .repository = repository, .user = user});
    }
    /// That of a search that finds nothing.
    std::string warning(const std::string& host = "reg.io") const {
        CredentialSearch search = find(host);
        CHECK(search.found.empty());
        REQUIRE(search.warnings.size() == 1);
        return search.warnings[0];
    }
};

std::string error_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("base64 goes both ways", "[image][credentials]") {
    for (const char* text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\x01:"})
        CHECK(decode_base64(encode_base64(text)) == std::string(text));
    CHECK(encode_base64("user:pass") == "dXNlcjpwYXNz");
}

TEST_CASE("registries are known by many names", "[image][credentials]") {
    for (const char* key :
         {"docker.io", "https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io", "HTTPS://Docker.IO"})
        CHECK(registry_host(key) == "registry-1.docker.io");
    CHECK(registry_host("https://Reg.io:5000/v2/") == "reg.io:5000");
    CHECK(registry_host("quay.io/team") == "quay.io");
    CHECK(docker_key("registry-1.docker.io") == "https://index.docker.io/v1/");
    CHECK(docker_key("reg.io") == "reg.io");
}

TEST_CASE("docker's and podman's files are read", "[image][credentials]") {
    LoginFile file = parse_login_file(
        R"({"auths":{"https://index.docker.io/v1/":{"auth":"dXNlcjpwYXNz"},"quay.io/team":{"username":"u",)"
        R"("password":"p"},
        "gcr.io":{"auth":"dTo=","identitytoken":"IDT"},"r.io":{"registrytoken":"RT"},"store.io":{}},
        "credHelpers":{"ecr.io":"ecr-login"},"credsStore":"secretservice","HttpHeaders":{"X":"y"}})",
        "f");
    REQUIRE(file.logins.size() == 4);
    const Login* hub = choose_login(file.logins, "registry-1.docker.io", "library/x", "");
    REQUIRE(hub);
    CHECK((hub->credentials.user == "user" && hub->credentials.password == "pass" && hub->credentials.source == "f"));
    CHECK(choose_login(file.logins, "gcr.io", "x", "")->credentials.identity_token == "IDT");
    CHECK(choose_login(file.logins, "r.io", "x", "")->credentials.registry_token == "RT");
    CHECK(choose_login(file.logins, "quay.io", "team/x", ""));
    CHECK_FALSE(choose_login(file.logins, "quay.io", "teams/x", ""));
    CHECK_FALSE(choose_login(file.logins, "store.io", "x", ""));
    CHECK_FALSE(choose_login(file.logins, "registry-1.docker.io", "x", "other"));
    CHECK(file.helpers.at("ecr.io") == "ecr-login");
    CHECK(file.store == "secretservice");
}

TEST_CASE("the longest path and the named user win", "[image][credentials]") {
    LoginFile file =
        parse_login_file(config_of(cat(auth_entry("q.io", "all", "1"), ",", auth_entry("q.io/t", "team", "2"), ",",
                                       auth_entry("q.io/t/x", "x", "3"))),
                         "f");
    CHECK(choose_login(file.logins, "q.io", "t/x", "")->credentials.user == "x");
    CHECK(choose_login(file.logins, "q.io", "t/y", "")->credentials.user == "team");
    CHECK(choose_login(file.logins, "q.io", "z", "")->credentials.user == "all");
    CHECK(choose_login(file.logins, "q.io", "t/x", "all")->credentials.user == "all");
}

TEST_CASE("a broken login file is named and not quoted", "[image][credentials]") {
    for (const char* text : {"s3cret", R"({"auths":["s3cret"]})", R"({"auths":{"s3cret":{},"s3cret":{}}})",
                             R"({"auths":{"a":{"password":"s3cret" )", R"({"credHelpers":["s3cret"]})"}) {
        std::string line = error_of([&] { parse_login_file(text, "/h/config.json"); });
        CHECK_THAT(line, Contains("/h/config.json") && !Contains("s3cret") && !Contains("czNj"));
    }
    // What is wrong with one host's entry is for that host alone.
    for (const char* text :
         {R"("a":{"auth":"s3cret!"})", R"("a":"s3cret")", R"("a":{"auth":"czNjcmV0"})", R"("a":5)"}) {
        LoginFile file = parse_login_file(
            cat(R"({"auths":{)", text, R"(,"b":{"auth":"dTpw"}},"credHelpers":{"c":5,"d":""}})"), "f");
        CHECK(file.unusable == std::vector<std::string>{"a", "c"});
        CHECK(choose_login(file.logins, "b", "x", ""));
        CHECK(file.helpers.at("d").empty());
    }
    CHECK_THAT(error_of([] { parse_helper_answer("s3cret", "docker-credential-x"); }),
               Contains("docker-credential-x") && !Contains("s3cret"));
}

TEST_CASE("hostile row 37: Enroot's lines are read by registry, a variable or command as such",
          "[image][credentials]") {
    std::vector<std::string> unusable;
    std::vector<Login> logins = parse_netrc(
        "# machine no.io login a password b\nmachine nvcr.io login $oauthtoken password nvapi-K\nmachine "
        "auth.docker.io\n\tlogin u\n\tpassword p$w\n"
        "machine var.io login u password $TOKEN\nmachine brace.io login u password ${TOKEN}\nmachine run.io login u "
        "password $(pass)\n"
        "machine half.io login u\nmachine user.io login $USER password p\ndefault login d password e\nmachine",
        "f", unusable);
    REQUIRE(logins.size() == 5);
    CHECK((logins[0].host == "nvcr.io" && logins[0].credentials.user == "$oauthtoken" &&
           logins[0].credentials.password == "nvapi-K"));
    CHECK((logins[1].host == "registry-1.docker.io" && logins[1].credentials.password == "p$w"));
    for (size_t i : {2, 3, 4}) CHECK(logins[i].credentials.password.empty());
    CHECK((logins[2].expression == "$TOKEN" && logins[3].expression == "${TOKEN}"));
    CHECK(logins[4].expression == "$(pass)");
    CHECK(unusable == std::vector<std::string>{"half.io", "user.io"});
    // To the end of the line, whose words are the command's own.
    logins = parse_netrc("machine a.io login AWS password $(aws ecr get-login-password --region machine login x)\n"
                         "machine b.io login u password p\n",
                         "f", unusable);
    REQUIRE(logins.size() == 2);
    CHECK(logins[0].expression == "$(aws ecr get-login-password --region machine login x)");
    CHECK((logins[1].host == "b.io" && logins[0].credentials.user == "AWS"));
    for (const char* broken : {"", "machine", "login", "password x login", "machine a machine b", "default"})
        CHECK(parse_netrc(broken, "f", unusable).empty());
}

TEST_CASE("places are looked at in order, the first login wins", "[image][credentials]") {
    Home home;
    CredentialSearch none = home.find();
    CHECK(none.found.empty());
    CHECK(none.looked.size() == 5);
    CHECK(none.warnings.empty());
    CHECK_THAT(login_explanation("reg.io", {}, none), Contains("sent no login") &&
                                                          Contains("docker/config.json (no such file)") &&
                                                          Contains("berth login reg.io"));
    home.write("enroot/.credentials", "machine reg.io login en password pw-enroot");
    CHECK(home.find().found.user == "en");
    home.write("docker/config.json", config_of(auth_entry("reg.io", "do", "pw-docker")));
    CHECK(home.find().found.user == "do");
    home.write("config", config_of(auth_entry("reg.io", "co", "pw-config")));
    CHECK(home.find().found.user == "co");
    home.write("podman", config_of(auth_entry("reg.io", "po", "pw-podman")));
    CHECK(home.find().found.user == "po");
    home.write("auth", config_of(auth_entry("other.io", "ot", "pw-other")));
    CHECK(home.find().found.user == "po");
    home.write("auth", config_of(auth_entry("reg.io", "au", "pw-auth")));
    CredentialSearch first = home.find();
    CHECK(first.found.user == "au");
    CHECK_THAT(login_explanation("reg.io", {first.found}, first), Contains("login of au from") && !Contains("pw-"));
    CHECK(home.find("reg.io", "a/b", "en").found.password == "pw-enroot");
    CHECK_THAT(login_explanation("reg.io", {}, home.find("reg.io", "a/b", "nobody")),
               Contains("nothing for nobody@reg.io") && !Contains("pw-"));
}

TEST_CASE("a command in .credentials counts where the site says so, and is passed over else",
          "[image][credentials]") {
    Home home;
    home.write("bin/tool", "#!/bin/sh\necho \"pw-of-$1 \"\n", 0700);
    std::string tool = home.folder / "bin/tool";
    home.write("enroot/.credentials", cat("machine reg.io login en password $(", tool, " x)\n",
                                          "machine more.io login v password $BERTH_TEST_TOKEN-x\n",
                                          "machine no.io login n password $(true)\n",
                                          "machine plain.io login p password pw-plain\n"));
    CHECK(home.find().found.empty());
    CHECK_THAT(home.warning(), Contains("registry.auth_commands") && Contains("reg.io") && Contains(".credentials") &&
                                   !Contains("tool"));
    // Of other lines nobody asks.
    CHECK(home.find("plain.io").found.password == "pw-plain");
    CHECK(home.find("plain.io").warnings.empty());
    home.places.commands = true;
    CHECK(home.find().found.password == "pw-of-x");
    CHECK(home.find().found.user == "en");
    ::setenv("BERTH_TEST_TOKEN", "pw-var", 1);
    CHECK(home.find("more.io").found.password == "pw-var-x");
    ::unsetenv("BERTH_TEST_TOKEN");
    CHECK_THAT(home.warning("no.io"), Contains("gives nothing") && Contains("no.io"));
    // What it writes and what the file says may be secrets.
    home.write("enroot/.credentials", "machine bad.io login b password `echo s3cret; kill -9 $$`\n");
    CHECK_THAT(home.warning("bad.io"), Contains("bad.io") && !Contains("s3cret"));
    home.write("enroot/.credentials", cat("machine reg.io login en password $(", tool, " x)\n"), 0620);
    CHECK_THAT(home.warning(), Contains("others can write"));
}

TEST_CASE("a password in .credentials that is a variable is the user's, without a shell", "[image][credentials]") {
    Home home;
    std::vector<std::string> asked;
    std::string value = "$(touch /tmp/x) `y` p:w";
    home.places.variable = [&](const std::string& name) -> std::optional<std::string> {
        asked.push_back(name);
        return name == "ENROOT_PASSWORD" || name == "T_1" ? std::optional(value) : std::nullopt;
    };
    home.write("enroot/.credentials",
               "machine a.io login u password $ENROOT_PASSWORD\nmachine b.io login u password ${T_1}\n"
               "machine c.io login u password $NOT_SET\nmachine d.io login u password ${T_1:-x}\n"
               "machine e.io login u password $T_1 x\nmachine f.io login u password $1\n");
    for (const char* host : {"a.io", "b.io"}) {
        CHECK(home.find(host).found.password == value);
        CHECK(home.find(host).warnings.empty());
    }
    CHECK_THAT(home.warning("c.io"), Contains("is not set here") && !Contains("NOT_SET"));
    // Words for a shell are not variables, and stay the site's to allow.
    asked.clear();
    for (const char* host : {"d.io", "e.io", "f.io"}) CHECK_THAT(home.warning(host), Contains("auth_commands"));
    CHECK(asked.empty());
    value = "two\nlines";
    CHECK_THAT(home.warning("a.io"), Contains("more than a line") && !Contains("two"));
    value = "pw";
    home.write("enroot/.credentials", "machine a.io login u password $ENROOT_PASSWORD\n", 0620);
    CHECK_THAT(home.warning("a.io"), Contains("others can write"));
}

TEST_CASE("Enroot's entry of a host counts for a port of it, in that file alone", "[image][credentials]") {
    Home home;
    auto find = [&](const std::string& host, bool direct, std::vector<std::string> refused = {}) {
        return find_credentials(home.places, {.host = host, .direct = direct, .refused = std::move(refused)});
    };
    home.write("enroot/.credentials",
               "machine reg.io login whole password p\nmachine reg.io:5000 login port password p\n");
    CHECK(find("reg.io:5000", true).found.user == "port");
    CHECK_FALSE(find("reg.io:5000", true).found.direct_only);
    CHECK(find("reg.io:5001", true).found.user == "whole");
    CHECK(find("reg.io:5001", true).found.direct_only);
    CHECK_FALSE(find("reg.io", true).found.direct_only);
    CHECK(find("reg.io:5001", true, {home.folder / "enroot/.credentials"}).found.empty());
    CredentialSearch other = find("reg.io:5001", false);
    CHECK(other.found.empty());
    CHECK(other.warnings.empty());
    CHECK_THAT(login_explanation("reg.io:5001", {}, other), Contains("by TLS and Basic alone"));
    CHECK(find("sub.reg.io:5001", true).found.empty());
    home.write("enroot/.credentials", "");
    home.write("docker/config.json", config_of(auth_entry("reg.io", "do", "p")));
    CHECK(find("reg.io:5001", true).found.empty());
    CHECK((host_without_port("[::1]:5000") == "[::1]" && host_without_port("[::1]").empty() &&
           host_without_port("reg.io").empty()));
}

TEST_CASE("Enroot's entry without a port is for the registry that a person has named alone", "[pull]") {
    Home home;
    home.write("enroot/.credentials",
               "machine reg.io login u password p\nmachine mirror.io login m password p\n"
               "machine mirror.io:81 login exact password p\n");
    berth::plan::Site site;
    site.registries["reg.io:5000"].mirrors = {"mirror.io:80"};
    berth::pull::Logins logins({"ENROOT_CONFIG_PATH=" + home.folder / "enroot"}, site);
    auto reference = berth::plan::parse_reference("reg.io:5000/a:1");
    RegistryOptions options = berth::pull::options_for(reference, "", site, logins);
    CHECK(options.credentials({.host = "reg.io:5000", .direct = true}).found.user == "u");
    CHECK(options.credentials({.host = "reg.io:5000"}).found.empty());
    CHECK(options.credentials({.host = "mirror.io:80", .direct = true}).found.empty());
    CHECK(options.credentials({.host = "mirror.io:81", .direct = true}).found.user == "exact");
    RegistryOptions published = berth::pull::artifact_rules(site, logins).registry(reference);
    CHECK(published.credentials({.host = "reg.io:5000", .direct = true}).found.empty());
    CHECK(published.history == options.history);
}

TEST_CASE("words of logins that were refused go there and back", "[image][credentials]") {
    RefusedLogin refused{"reg.io:5000", "/home/a b/.docker/config=1.json\n"};
    std::string word = word_of(refused);
    CHECK(word == "reg.io%3A5000=%2Fhome%2Fa%20b%2F.docker%2Fconfig%3D1.json%0A");
    CHECK(parse_refused_login(word) == refused);
    for (const char* bad : {"", "a", "=", "a=", "=b", "a=%", "a=%2", "a=%2f", "a=%41", "a=b=c", "a=\x01", "a= b"})
        CHECK_FALSE(parse_refused_login(bad));
    LoginHistory history;
    history.add(refused);
    history.add(refused);
    CHECK(history.refused_by("reg.io:5000") == std::vector<std::string>{refused.source});
    CHECK(history.refused_by("reg.io").empty());
    CHECK((history.may_warn("a") && !history.may_warn("a") && history.may_warn("b")));
    history.silence();
    CHECK_FALSE(history.may_warn("c"));
}

TEST_CASE("a command in .credentials has nothing of the job's open", "[image][credentials]") {
    Home home;
    home.places.commands = true;
    berth::Fd job(::open((home.folder / "job").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(job);
    home.write("enroot/.credentials", cat("machine reg.io login en password $(ls -l /proc/self/fd | grep -c ",
                                          home.folder / "job", ")-\n"));
    CHECK(home.find().found.password == "0-");
}

TEST_CASE("a login file that others can read is warned of, one that is no file passed over", "[image][credentials]") {
    Home home;
    home.write("auth", config_of(auth_entry("reg.io", "u", "p")), 0644);
    REQUIRE(home.find().warnings.size() == 1);
    CHECK_THAT(home.find().warnings[0], Contains("chmod 600"));
    home.places.auth_file = home.folder / "docker";
    CHECK_THAT(home.warning(), Contains("no regular file"));
}

TEST_CASE("credential programs are asked by standard input", "[image][credentials]") {
    Home home;
    home.helper(
        "good",
        cat("echo \"$@\" > ", home.folder / "arguments",
            "\nread url\nprintf '{\"ServerURL\":\"%s\",\"Username\":\"<token>\",\"Secret\":\"IDT-'$url'\"}' $url\n"));
    home.helper("none", "echo 'credentials not found in native keychain'; exit 1\n");
    home.write(
        "docker/config.json",
        R"({"credHelpers":{"reg.io":"good","bad.io":"../x","gone.io":"gone"},"credsStore":"none",)"
        R"("auths":{"inline.io":{"auth":"dTpw"}}})");
    CredentialSearch got = home.find();
    CHECK(got.found.identity_token == "IDT-reg.io");
    CHECK(got.found.user.empty());
    CHECK(got.found.source == "docker-credential-good");
    CHECK(berth::sys::read_file(home.folder / "arguments") == "get\n");
    CHECK(home.find("inline.io").found.user == "u");
    CHECK(home.find("none.io").warnings.empty());
    CHECK_THAT(login_explanation("none.io", {}, home.find("none.io")), Contains("docker-credential-none (code 1"));
    CHECK_THAT(home.warning("bad.io"), Contains("no name of a credential helper"));
    CHECK_THAT(home.warning("gone.io"), Contains("docker-credential-gone of ") && Contains("no such program in PATH"));
    CHECK_THAT(error_of([&] { run_credential_helper("gone", home.places.path, "get", "x"); }),
               Contains("docker-credential-gone is not in PATH"));
}

TEST_CASE("a login is stored as docker does and removed again", "[image][credentials]") {
    Home home;
    std::string file = home.folder / "docker/config.json";
    home.write(
        "docker/config.json",
        R"({"zebra":1,"auths":{"https://reg.io/v2/":{"auth":"dTpw"},"reg.io/team":{"auth":"dDpw"},)"
        R"("o.io":{"auth":"dTpw"}},"HttpHeaders":{"A":"b"}})",
        0644);
    CHECK(store_login(home.places, "reg.io", {"new", "s3cret", "", "", ""}) == file);
    struct stat st {};
    REQUIRE(::stat(file.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
    std::string text = berth::sys::read_file(file);
    CHECK(text.find("zebra") < text.find("auths"));
    CHECK_THAT(text, Contains("HttpHeaders") && !Contains("https://reg.io"));
    CHECK(home.find("reg.io", "x").found.password == "s3cret");
    CHECK(home.find("reg.io", "team/x").found.user == "t");
    CHECK(home.find("o.io").found.user == "u");
    CHECK(erase_login(home.places, "reg.io"));
    CHECK(home.find("reg.io", "x").found.empty());
    CHECK_FALSE(erase_login(home.places, "reg.io"));
    CHECK(home.find("o.io").found.user == "u");

    ::unlink(file.c_str());
    ::rmdir((home.folder / "docker").c_str());
    store_login(home.places, "registry-1.docker.io", {"hub", "p", "", "", ""});
    CHECK_THAT(berth::sys::read_file(file), Contains("https://index.docker.io/v1/"));
}

TEST_CASE("a login goes to the credential program that the file names", "[image][credentials]") {
    Home home;
    home.helper("keep", cat("cat >> ", home.folder / "kept", "\necho \" $@\" >> ", home.folder / "kept", "\n"));
    home.write("docker/config.json", R"({"credsStore":"keep"})");
    CHECK(store_login(home.places, "reg.io", {"u", "s3cret", "", "", ""}) == "docker-credential-keep");
    CHECK_THAT(berth::sys::read_file(home.folder / "docker/config.json"),
               Contains("\"reg.io\": {}") && !Contains(encode_base64("u:s3cret")));
    CHECK(erase_login(home.places, "reg.io"));
    CHECK(berth::sys::read_file(home.folder / "kept") ==
          "{\"ServerURL\":\"reg.io\",\"Username\":\"u\",\"Secret\":\"s3cret\"} store\nreg.io erase\n");
}

TEST_CASE("the environment says where logins lie, the site file how registries are reached", "[pull]") {
    CredentialPlaces places =
        berth::pull::credential_places({"HOME=/h", "REGISTRY_AUTH_FILE=/a", "XDG_RUNTIME_DIR=/r", "PATH=/p"}, {});
    CHECK((places.auth_file == "/a" && places.podman_file == "/r/containers/auth.json" &&
           places.docker_folder == "/h/.docker" && places.enroot_folder == "/h/.config/enroot"));
    places = berth::pull::credential_places({"HOME=/h", "DOCKER_CONFIG=/d", "XDG_CONFIG_HOME=/c"}, {});
    CHECK((places.docker_folder == "/d" && places.enroot_folder == "/c/enroot" && places.podman_file.empty() &&
           places.path == "/usr/local/bin:/usr/bin:/bin" && places.config_file == "/c/containers/auth.json"));
    CHECK(berth::pull::credential_places({"HOME=/h"}, {}).config_file == "/h/.config/containers/auth.json");
    CHECK(berth::pull::credential_places({}, {}).run_file == cat("/run/containers/", ::getuid(), "/auth.json"));
    CHECK(berth::pull::credential_places({"A=1"}, {}).variable("A") == "1");
    CHECK(berth::pull::credential_places({"ENROOT_CONFIG_PATH=/e"}, {}).enroot_folder == "/e");
    CHECK(berth::pull::credential_places({}, {}).docker_folder.empty());
    // The site's folder, in the forms that Enroot's configuration has; the job's own counts more.
    berth::plan::Site with_folder;
    CHECK_FALSE(berth::pull::credential_places({}, with_folder).commands);
    with_folder.logins.auth_commands = true;
    for (const char* path : {"~/.enroot", "$HOME/.enroot", "${HOME}/.enroot", "%h/.enroot"}) {
        with_folder.logins.auth_path = path;
        places = berth::pull::credential_places({"HOME=/h", "XDG_CONFIG_HOME=/c"}, with_folder);
        CHECK(places.enroot_folder == "/h/.enroot");
    }
    with_folder.logins.auth_path = "/shared/%U";
    CHECK(berth::pull::credential_places({"HOME=/h"}, with_folder).enroot_folder == cat("/shared/", ::getuid()));
    places = berth::pull::credential_places({"HOME=/h", "ENROOT_CONFIG_PATH=/e"}, with_folder);
    CHECK((places.enroot_folder == "/e" && places.commands));

    berth::plan::Site site;
    site.network.proxy = "p:1";
    site.registries["docker.io"].mirrors = {"m.io"};
    site.registries["m.io"].ca = "/ca";
    site.registries["x.io"].plain_http = true;
    RegistryOptions options = berth::pull::registry_options(site, "registry-1.docker.io");
    CHECK(options.mirrors == std::vector<std::string>{"m.io"});
    CHECK(options.ca.at("m.io") == "/ca");
    CHECK(options.plain_http.contains("x.io"));
    CHECK(options.proxy == "p:1");
    CHECK(berth::pull::registry_options(site, "x.io").mirrors.empty());
}
