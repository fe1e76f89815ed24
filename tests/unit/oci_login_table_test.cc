// Every way in which files of logins can be there and be of no use, at registries of each kind.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/registry/server.hh"

using namespace berth::oci;
using berth::cat;
using berth::test::Content;
using berth::test::HttpCall;
using berth::test::HttpReply;
using berth::test::Server;
using Catch::Contains;

namespace {

std::string packed(const std::string& user) { return encode_base64(cat(user, ":pw-", user)); }

std::string entry(const std::string& host, const std::string& user) {
    return cat("\"", host, R"(":{"auth":")", packed(user), "\"}");
}

std::string auths(const std::string& entries) { return cat(R"({"auths":{)", entries, "}}"); }

/// What a registry says to whom: "good" has access, "old" is a login that has ended.
struct Answering {
    enum class Kind { open, public_by_token, by_token, by_token_403, basic, basic_403 };
    static constexpr Kind kinds[] = {Kind::open,         Kind::public_by_token, Kind::by_token,
                                     Kind::by_token_403, Kind::basic,           Kind::basic_403};
    Kind kind = Kind::open;
    Content content;
    std::string digest = content.add_manifest("application/vnd.oci.image.manifest.v1+json", "{}");
    std::string blob = content.add_blob("x");
    std::mutex mutex;
    std::vector<std::string> users;  ///< whose logins came, in order
    Server server{[this](const HttpCall& call) { return answer(call); }};

    bool is_public() const { return kind == Kind::open || kind == Kind::public_by_token; }
    bool is_basic() const { return kind == Kind::basic || kind == Kind::basic_403; }

    HttpReply answer(const HttpCall& call) {
        auto found = call.headers.find("authorization");
        std::string sent = found == call.headers.end() ? "" : found->second;
        std::string user;
        if (sent.starts_with("Basic ")) {
            std::string pair = decode_base64(sent.substr(6)).value_or("");
            user = pair.substr(0, pair.find(':'));
            std::lock_guard lock(mutex);
            users.push_back(user);
        }
        if (call.target.starts_with("/token")) {
            if (user == "good") return {.body = R"({"token":"T"})"};
            if (sent.empty() && is_public()) return {.body = R"({"token":"A"})"};
            return {.status = kind == Kind::by_token_403 ? 403 : 401};
        }
        bool in = kind == Kind::open || (is_basic() ? user == "good" : sent == "Bearer T") ||
                  (kind == Kind::public_by_token && sent == "Bearer A");
        if (in) return content.answer(call);
        if (kind == Kind::basic_403 && !sent.empty()) return {.status = 403};
        return {.status = 401,
                .headers = {is_basic() ? "WWW-Authenticate: Basic realm=\"x\""
                                       : cat("WWW-Authenticate: Bearer realm=\"http://", server.host(), "/token\"")}};
    }
};

/// A home whose files are in one state at a time.
struct Home {
    berth::fixtures::TempFolder folder;
    CredentialPlaces places{folder / "auth", folder / "podman", folder / "docker", folder / "enroot",
                            cat(folder / "bin"), false, folder / "config", folder / "run"};

    Home() {
        for (const char* name : {"docker", "enroot", "bin"}) berth::sys::make_directories(folder / name, 0700);
        helper("none", "echo 'credentials not found in native keychain'; exit 1");
        helper("fails", "echo pw-helper; exit 3");
        helper("odd", "echo pw-helper");
        helper("empty", "exit 0");
        helper("old", R"(echo '{"Username":"old","Secret":"pw-old"}')");
        helper("torn", "kill -9 $$");
        std::ofstream(folder / "bin/docker-credential-noexec") << "#!/no/such/shell\n";
        ::chmod((folder / "bin/docker-credential-noexec").c_str(), 0700);
    }
    void helper(const std::string& name, const std::string& script) const {
        std::string file = folder / ("bin/docker-credential-" + name);
        std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
        ::chmod(file.c_str(), 0700);
    }
    void clear() const {
        for (const char* name : {"auth", "podman", "run", "config", "docker/config.json", "enroot/.credentials"})
            std::filesystem::remove_all(folder / name);
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name) << text;
        ::chmod((folder / name).c_str(), 0600);
    }
};

struct State {
    std::string name;
    bool is_useless = false;  ///< a person may want to mend it, and is told
    std::function<void(const std::string& file)> make;
    std::string user = {};  ///< whose login it has
};

State with_text(const std::string& name, bool is_useless, const std::string& text, const std::string& user = {}) {
    auto make = [text](const std::string& file) {
        std::ofstream(file) << text;
        ::chmod(file.c_str(), 0600);
    };
    return {name, is_useless, make, user};
}

std::vector<State> states_of_any_file() {
    return {{"absent", false, [](const std::string&) {}},
            {"a folder", true, [](const std::string& file) { std::filesystem::create_directory(file); }},
            {"a FIFO", true, [](const std::string& file) { REQUIRE(::mkfifo(file.c_str(), 0600) == 0); }},
            // One that cannot be opened, by root neither.
            {"a loop", true, [](const std::string& file) { std::filesystem::create_symlink(file, file); }},
            {"a link to nothing", false,
             [](const std::string& file) { std::filesystem::create_symlink("/no/x", file); }},
            with_text("too large", true, std::string(2 << 20, ' '))};
}

std::vector<State> states_of_json(const std::string& host) {
    std::vector<State> out = states_of_any_file();
    std::string other = entry("other.example", "other");
    for (State& state : std::vector<State>{
             with_text("empty", true, ""),
             with_text("blank", true, "\n\n"),
             with_text("half", true, R"({"auths":{"a":{"au)"),
             with_text("text", true, "user: pw-text\n"),
             with_text("a list", true, "[]"),
             with_text("auths is a list", true, R"({"auths":[]})"),
             with_text("no member", false, "{}"),
             with_text("null", false, R"({"auths":null,"credHelpers":null})"),
             with_text("another host's", false, auths(other)),
             with_text("a bad auth of another host", false,
                       R"({"auths":{"other.example":{"auth":"!"},"more.example":5}})"),
             with_text("a bad auth", true, auths(cat(other, ",\"", host, R"(":{"auth":"!pw"})"))),
             with_text("an auth without a colon", true, auths(cat("\"", host, R"(":{"auth":"cHc="})"))),
             with_text("an entry that is a word", true, auths(cat("\"", host, R"(":"pw")"))),
             with_text("an entry that is null", true, auths(cat("\"", host, "\":null,", other))),
             with_text("an old login beside a store that is not there", true,
                       cat(R"({"credsStore":"desktop",)", auths(entry(host, "old")).substr(1)), "old"),
             with_text("an empty entry", false, auths(cat("\"", host, "\":{}"))),
             with_text("a login that has ended", true, auths(entry(host, "old")), "old"),
             with_text("a store that is not there", true, R"({"auths":{},"credsStore":"desktop"})"),
             with_text("a helper that is not there", true, cat(R"({"credHelpers":{")", host, R"(":"gone"}})")),
             with_text("another host's helper", false, R"({"credHelpers":{"other.example":"gone","x.example":5}})"),
             with_text("a helper of no name", true, cat(R"({"credHelpers":{")", host, R"(":"../x"}})")),
             with_text("a helper of an empty name", false, cat(R"({"credHelpers":{")", host, R"(":""}})")),
             with_text("a helper that is a number", true, cat(R"({"credHelpers":{")", host, R"(":5}})")),
             with_text("a helper without a shell", true, R"({"credsStore":"noexec"})"),
             with_text("a helper that has none", false, R"({"credsStore":"none"})"),
             with_text("a helper that fails", true, R"({"credsStore":"fails"})"),
             with_text("a helper that is killed", true, R"({"credsStore":"torn"})"),
             with_text("a helper with an odd answer", true, R"({"credsStore":"odd"})"),
             with_text("a helper without an answer", true, R"({"credsStore":"empty"})"),
             with_text("a helper's login that has ended", true, R"({"credsStore":"old"})", "old")})
        out.push_back(std::move(state));
    return out;
}

std::vector<State> states_of_netrc(const std::string& host) {
    std::vector<State> out = states_of_any_file();
    auto line = [&](const std::string& rest) { return cat("machine ", host, " ", rest, "\n"); };
    for (State& state : std::vector<State>{
             with_text("empty", false, ""),
             with_text("binary", false, std::string("\0\xff machine \0", 12)),
             with_text("default", false, "default login other password pw-other\n"),
             with_text("another host's", false, "machine other.example login other password pw-other\n"),
             with_text("the host's without its port", false, "machine 127.0.0.1 login other password pw-other\n"),
             with_text("half", true, line("login old")),
             with_text("a user that is a variable", true, line("login $USER password pw")),
             with_text("a command", true, line("login old password $(echo pw-old)")),
             with_text("a variable that is not set", true, line("login old password $NOT_SET")),
             with_text("a login that has ended", true, line("login old password pw-old"), "old")})
        out.push_back(std::move(state));
    return out;
}

/// What a pull with these files came to: two clients of one pull, as for an image and its signatures.
struct Outcome {
    std::string error;
    std::vector<std::string> notices;
    std::vector<std::string> users;
};

Outcome pulled(Answering& registry, const Home& home) {
    Outcome out;
    registry.users.clear();
    RegistryOptions options;
    options.limits.connect_seconds = 2;
    options.retry.retries = 0;
    options.history = std::make_shared<LoginHistory>();
    options.notice = [&](const std::string& line) { out.notices.push_back(line); };
    options.credentials = [&](LoginQuery query) {
        query.repository = "a/b";
        return find_credentials(home.places, query);
    };
    auto reference = berth::plan::parse_reference(registry.server.host() + "/a/b:1");
    try {
        std::string manifest = Registry(reference, options).get_manifest(registry.digest).bytes;
        std::string blob = Registry(reference, options).get_blob({"", berth::Digest(registry.blob), 1});
        CHECK((manifest == "{}" && blob == "x"));
    } catch (const berth::Error& error) {
        out.error = error.what();
    }
    out.users = registry.users;
    return out;
}

/// `has_good`: a later file has a login that the registry takes.
void check_outcome(const Answering& registry, const State& state, bool has_good, const Outcome& out) {
    for (std::string text : {out.error, out.notices.empty() ? std::string() : out.notices[0]})
        CHECK_THAT(text, !Contains("pw-") && !Contains(packed("old")) && !Contains("NOT_SET") && !Contains("\n"));
    CHECK(out.notices.size() <= 1);
    auto count = [&](const char* user) { return std::count(out.users.begin(), out.users.end(), user); };
    CHECK(count("other") == 0);
    CHECK(count("old") <= 1);
    if (registry.kind == Answering::Kind::open) {
        CHECK((out.error.empty() && out.notices.empty() && out.users.empty()));
        return;
    }
    CHECK(count("old") == (state.user.empty() ? 0 : 1));
    bool gets_in = has_good || registry.is_public();
    CHECK(out.error.empty() == gets_in);
    CHECK((out.notices.size() == 1) == (gets_in && state.is_useless));
    CHECK((count("good") > 0) == has_good);
    if (!gets_in) CHECK_THAT(out.error, Contains("no access") && Contains("/"));
    if (!gets_in && !state.user.empty()) CHECK_THAT(out.error, Contains("sent the login of " + state.user));
}

}  // namespace

TEST_CASE("a file of logins in any state costs at most a warning, at any registry", "[image][credentials]") {
    Answering registry;
    Home home;
    std::string host = registry.server.host();
    for (const char* file : {"auth", "podman", "run", "config", "docker/config.json", "enroot/.credentials"}) {
        bool is_last = std::string(file) == "enroot/.credentials";
        for (const State& state : is_last ? states_of_netrc(host) : states_of_json(host))
            for (Answering::Kind kind : Answering::kinds)
                for (bool has_good : {false, true}) {
                    if (has_good && is_last) continue;
                    INFO(file << ": " << state.name << ", registry " << static_cast<int>(kind) << ", "
                              << (has_good ? "a good login behind it" : "nothing behind it"));
                    home.clear();
                    state.make(home.folder / file);
                    if (has_good)
                        home.write("enroot/.credentials", cat("machine ", host, " login good password pw-good\n"));
                    registry.kind = kind;
                    check_outcome(registry, state, has_good, pulled(registry, home));
                }
    }
}

TEST_CASE("at most two logins are sent to a host in a pull, none of them twice", "[image][credentials]") {
    Answering registry;
    Home home;
    std::string host = registry.server.host();
    home.write("auth", auths(entry(host, "first")));
    home.write("podman", auths(entry(host, "second")));
    home.write("docker/config.json", auths(entry(host, "good")));
    for (Answering::Kind kind : {Answering::Kind::by_token, Answering::Kind::basic, Answering::Kind::basic_403}) {
        registry.kind = kind;
        Outcome out = pulled(registry, home);
        CHECK(out.users == std::vector<std::string>{"first", "second"});
        CHECK_THAT(out.error, Contains("sent the login of first from " + home.folder / "auth") &&
                                  Contains(", then that of second from " + home.folder / "podman"));
    }
}

TEST_CASE("a login in a file counts without a word where its store's program is not there", "[image][credentials]") {
    Answering registry;
    registry.kind = Answering::Kind::basic;
    Home home;
    std::string host = registry.server.host();
    for (const char* store : {"desktop", "../x", ""}) {
        INFO(store);
        home.write("run", cat(R"({"credsStore":")", store, R"(","credHelpers":{"other.example":"gone"},)",
                              auths(cat(entry(host, "good"), R"(,"other.example":null,"more.example":{"auth":"cHc="})"))
                                  .substr(1)));
        Outcome out = pulled(registry, home);
        CHECK(out.error == "");
        CHECK(out.notices.empty());
        CHECK(std::set<std::string>(out.users.begin(), out.users.end()) == std::set<std::string>{"good"});
    }
    // One that is there is asked first, and told when it fails.
    home.write("run", cat(R"({"credsStore":"fails",)", auths(entry(host, "good")).substr(1)));
    Outcome out = pulled(registry, home);
    CHECK(out.error == "");
    CHECK(out.notices.size() == 1);
}

TEST_CASE("a login that was refused before is not sent, and counts", "[image][credentials]") {
    Answering registry;
    registry.kind = Answering::Kind::basic;
    Home home;
    std::string host = registry.server.host();
    home.write("auth", auths(entry(host, "first")));
    home.write("podman", auths(entry(host, "second")));
    home.write("docker/config.json", auths(entry(host, "good")));
    RegistryOptions options;
    options.history = std::make_shared<LoginHistory>();
    options.history->add({host, home.folder / "auth"});
    options.credentials = [&](const LoginQuery& query) { return find_credentials(home.places, query); };
    auto reference = berth::plan::parse_reference(host + "/a/b:1");
    CHECK_THROWS_WITH(Registry(reference, options).get_manifest("1"),
                      Contains("sent the login of first from " + home.folder / "auth") &&
                          Contains(", then that of second from "));
    CHECK(registry.users == std::vector<std::string>{"second"});
    CHECK(options.history->refused().size() == 2);
    registry.users.clear();
    CHECK_THROWS(Registry(reference, options).get_manifest("1"));
    CHECK(registry.users.empty());
    // Of another host.
    options.history = std::make_shared<LoginHistory>();
    options.history->add({"other.example", home.folder / "auth"});
    CHECK_THROWS(Registry(reference, options).get_manifest("1"));
    CHECK(registry.users == std::vector<std::string>{"first", "second"});
}
