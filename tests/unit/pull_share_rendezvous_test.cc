// Where pulls meet that have no srun in common: the file, and who may have written it.
#include "runtime/pull/share/rendezvous.hh"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/tcp_port.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::pull::share;
using Catch::Contains;
using fixtures::TempFolder;

namespace {

const Digest image("sha256:" + std::string(64, 'a'));
const std::string secret(32, 's');

RendezvousSettings settings_in(const std::string& folder) { return {folder, image, "127.0.0.1", "n1"}; }

void write_meeting(const std::string& folder, const std::string& text, unsigned mode = 0600) {
    std::filesystem::create_directory(folder);
    ::chmod(folder.c_str(), 0700);
    std::string path = cat(folder, "/", image.hex());
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
}

std::string failure_in(const std::string& folder) {
    try {
        Rendezvous meeting(settings_in(folder));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("rendezvous: a meeting's text is read as it was written, and nothing else is", "[share]") {
    pull::MeetingPlace place{"10.0.0.7", "40001", secret, "", 0};
    auto read = parse_meeting(meeting_text(place));
    REQUIRE(read);
    CHECK((read->host == place.host && read->port == place.port && read->secret == secret));
    for (const char* text : {"", "berth-meeting-1", "berth-meeting-2 h 1 s", "berth-meeting-1 h 0 s",
                             "berth-meeting-1 h 65536 s", "berth-meeting-1 h 1 s more", "berth-meeting-1 h x s"}) {
        INFO(text);
        CHECK_FALSE(parse_meeting(text));
    }
}

TEST_CASE("rendezvous: a place at which somebody listens is taken, and its file stays", "[share]") {
    TempFolder folder;
    std::string meet = folder / "meet";
    Fd listening = listen_at(0);
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    std::string port = std::to_string(ntohs(address.sin6_port));
    write_meeting(meet, meeting_text({"127.0.0.1", port, secret, "", 0}));
    {
        Rendezvous meeting(settings_in(meet));
        CHECK(meeting.place().port == port);
        CHECK(meeting.place().secret == secret);
        CHECK(meeting.place().node == "n1");
    }
    CHECK(std::filesystem::exists(cat(meet, "/", image.hex())));
}

TEST_CASE("rendezvous: a folder or file that others may write is refused", "[share]") {
    TempFolder folder;
    write_meeting(folder / "open", "", 0644);
    CHECK_THAT(failure_in(folder / "open"), Contains("is not a file of the user's alone"));
    write_meeting(folder / "others", "");
    ::chmod((folder / "others").c_str(), 0777);
    CHECK_THAT(failure_in(folder / "others"), Contains("nobody else may write there"));
    std::filesystem::create_directory(folder / "link");
    ::chmod((folder / "link").c_str(), 0700);
    std::filesystem::create_symlink("/etc/hostname", cat(folder / "link", "/", image.hex()));
    CHECK_FALSE(failure_in(folder / "link").empty());
}
