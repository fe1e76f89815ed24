// The daemons of docker and podman, played by a server on a unix socket.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/pull/image/daemons.hh"
#include "runtime/store/names.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/unit/oci_source_support.hh"

using namespace berth;
using namespace berth::test;
using Catch::Contains;

namespace {

/// Answers GETs by path, one connection after the other, until destroyed.
class FakeDaemon {
  public:
    struct Reply {
        int status = 200;
        std::string body;
        size_t cut = 0;  ///< bytes of the body that are announced and not sent
    };
    FakeDaemon(const std::string& path, std::map<std::string, Reply> replies)
        : path_(path), replies_(std::move(replies)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        REQUIRE(path.size() < sizeof address.sun_path);
        std::memcpy(address.sun_path, path.c_str(), path.size());
        listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(::listen(listener_, 8) == 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeDaemon() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    std::vector<std::string> log() {
        std::lock_guard lock(mutex_);
        return log_;
    }

  private:
    void serve() {
        for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(fd)) answer(fd);
    }
    void answer(int fd) {
        std::string request;
        char buffer[4096];
        while (request.find("\r\n\r\n") == request.npos) {
            ssize_t got = ::read(fd, buffer, sizeof buffer);
            if (got <= 0) return;
            request.append(buffer, static_cast<size_t>(got));
        }
        std::string target = request.substr(4, request.find(' ', 4) - 4);
        {
            std::lock_guard lock(mutex_);
            log_.push_back(target);
        }
        Reply reply = replies_.contains(target) ? replies_[target] : Reply{404, R"({"message":"No such image"})"};
        std::string all = cat("HTTP/1.1 ", reply.status, " X\r\nContent-Length: ", reply.body.size(),
                              "\r\nConnection: close\r\n\r\n", reply.body);
        all.resize(all.size() - reply.cut);
        for (size_t at = 0; at < all.size();) {
            ssize_t put = ::send(fd, all.data() + at, all.size() - at, MSG_NOSIGNAL);
            if (put <= 0) return;
            at += static_cast<size_t>(put);
        }
    }

    std::string path_;
    std::map<std::string, Reply> replies_;
    int listener_ = -1;
    std::mutex mutex_;
    std::vector<std::string> log_;
    std::thread thread_;
};

const std::string id = oci::sha256_of(config_of(layer_tar())).text();

std::string archive() {
    return tar_of({{"c.json", config_of(layer_tar())},
                   {"l/layer.tar", layer_tar()},
                   {"manifest.json", R"([{"Config":"c.json","RepoTags":null,"Layers":["l/layer.tar"]}])"}});
}

std::map<std::string, FakeDaemon::Reply> honest() {
    return {{"/images/debian:12/json", {200, cat(R"({"Id":")", id, R"("})")}},
            {cat("/images/", id.substr(7), "/get"), {200, archive()}}};
}

pull::Options asking(const std::string& socket) {
    pull::Options out;
    out.docker_socket = out.podman_socket = socket;
    return out;
}

}  // namespace

TEST_CASE("an image comes from a daemon, and is exported once", "[source]") {
    SourceScene scene;
    std::string scheme = GENERATE("dockerd://", "podman://"), socket = scene.folder / "sock";
    FakeDaemon daemon(socket, honest());
    std::string digest = scene.pull(scheme + "debian:12", asking(socket));
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
    CHECK(scene.count("tmp") == 0);
    CHECK(scene.pull(scheme + "debian:12", asking(socket)) == digest);
    CHECK(daemon.log() == std::vector<std::string>{"/images/debian:12/json", cat("/images/", id.substr(7), "/get"),
                                                   "/images/debian:12/json"});
}

TEST_CASE("a daemon is found by the variables of its own client", "[source]") {
    pull::Options options;
    pull::set_daemon(options, plan::parse_reference("dockerd://x"),
                     {"DOCKER_HOST=unix:///d.sock", "DOCKER_HOST=unix:///second", "XDG_RUNTIME_DIR=/r"});
    CHECK(options.docker_socket == "/d.sock");
    CHECK(options.podman_socket.empty());
    pull::set_daemon(options, plan::parse_reference("podman://x"), {"DOCKER_HOST=tcp://n1:2375", "XDG_RUNTIME_DIR=/r"});
    CHECK(options.podman_socket == "/r/podman/podman.sock");
    CHECK_THROWS_WITH(pull::set_daemon(options, plan::parse_reference("dockerd://x"), {"DOCKER_HOST=tcp://n1:2375"}),
                      Contains("only a unix socket"));
}

TEST_CASE("what is damaged comes again from the daemon that it came from", "[source]") {
    SourceScene scene;
    std::string socket = scene.folder / "sock";
    FakeDaemon daemon(socket, honest());
    std::string digest = scene.pull("dockerd://debian:12", asking(socket)),
                layer = store::layer_file_name(oci::sha256_of(layer_tar()));
    REQUIRE(std::filesystem::remove(cat(scene.folder / "store", "/layers/", layer)));
    std::string command = cat("DOCKER_HOST=unix://", socket, " ", fixtures::built_program("berth-pull"),
                              " verify --repair --store ", scene.folder / "store");
    auto result = fixtures::run_command(command);
    INFO(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("repaired dockerd://debian:12") && Contains("all repaired"));
    CHECK(scene.os_of(digest) == "PRETTY=base\n");
}

TEST_CASE("what a daemon lacks or forbids is told with the remedy", "[source]") {
    SourceScene scene;
    std::string socket = scene.folder / "sock";
    CHECK_THAT(scene.failure("dockerd://x", asking(socket)), Contains("docker does not listen at") && Contains(socket));
    CHECK_THAT(scene.failure("podman://x", asking(socket)), Contains("podman.socket"));
    FakeDaemon daemon(socket, honest());
    CHECK_THAT(scene.failure("dockerd://x", asking(socket)), Contains("no such image") && Contains("docker pull x"));
    CHECK_THAT(scene.failure("podman://r.io/x:1", asking(socket)), Contains("podman pull r.io/x:1"));
}

TEST_CASE("hostile: answers of a daemon that are not what they should be", "[source][hostile]") {
    SourceScene scene;
    auto replies = honest();
    std::string get = cat("/images/", id.substr(7), "/get"), word,
                what = GENERATE("id", "json", "fault", "cut", "no tar", "huge");
    if (what == "id") replies["/images/debian:12/json"].body = R"({"Id":"../../x"})", word = "no digest";
    if (what == "json") replies["/images/debian:12/json"].body = "<html>", word = "debian:12";
    if (what == "fault") replies[get] = {500, "{\"message\":\"disk \\u001b[31m full\"}"}, word = "status 500: disk";
    if (what == "cut") replies[get].cut = 1000, word = "asking docker";
    if (what == "no tar") replies[get].body = std::string(2000, 'x'), word = "is no tar file";
    if (what == "huge") replies["/images/debian:12/json"].body = std::string(5 << 20, ' '), word = "larger than";
    FakeDaemon daemon(scene.folder / "sock", replies);
    INFO(what);
    std::string line = scene.failure("dockerd://debian:12", asking(scene.folder / "sock"));
    CHECK_THAT(line, Contains(word) && Contains("dockerd://debian:12"));
    CHECK(line.find('\x1b') == line.npos);
}
