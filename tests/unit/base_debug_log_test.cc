// The debug log: its lines, where they go, and that nothing waits for whoever reads them.
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/channel.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "tests/catch.hh"

using namespace berth;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

/// What comes over the socket, a packet a line.
std::string packets(const Fd& socket) {
    char line[8192];
    std::string out;
    for (ssize_t size; (size = ::recv(socket.get(), line, sizeof line, MSG_DONTWAIT)) > 0;)
        out += std::string(line, static_cast<size_t>(size)) + '\n';
    return out;
}

/// Ends the log also where a check fails.
struct Ended {
    ~Ended() { debug::end(); }
};

}  // namespace

TEST_CASE("BERTH_LOG: debug asks for the log, off and nothing do not, and all else is a mistake", "[base]") {
    CHECK(debug::is_wanted("debug"));
    CHECK_FALSE(debug::is_wanted("off"));
    CHECK_FALSE(debug::is_wanted(""));
    CHECK_FALSE(debug::is_wanted(nullptr));
    for (const char* value : {"1", "DEBUG", "info", "debug ", "de\nbug"})
        CHECK_THROWS_WITH(debug::is_wanted(value), StartsWith("BERTH_LOG=") && EndsWith(": write debug, or off"));
    CHECK_THROWS_WITH(debug::is_wanted("de\nbug"), Contains("de\\x0abug"));
    CHECK(debug::asks_for_log("debug"));
    for (const char* value : {"off", "", "1"}) CHECK_FALSE(debug::asks_for_log(value));
    CHECK_FALSE(debug::asks_for_log(nullptr));
}

TEST_CASE("a line of the log says when, which process and which part", "[base]") {
    CHECK(debug::line_of("berth", 4711, 1'764'525'909'012'345, "image", "found") ==
          "debug 2025-11-30T18:05:09.012345Z berth[4711] image: found");
    CHECK_THAT(debug::line_of("berth", 1, 0, "image", "a\nb\x1b[2J"), EndsWith(" image: a\\x0ab\\x1b[2J"));
    CHECK(debug::line_of("berth", 1, 0, "image", std::string(10'000, 'x')).size() < 2'100);
}

TEST_CASE("without a log nothing is written, and with one each line is a packet", "[base]") {
    Ended ended;
    auto&& [here, there] = make_channel();
    debug::log("image", "before");
    CHECK_FALSE(debug::is_on());
    CHECK(debug::descriptor() == -1);
    debug::start("test", Fd(::dup(there.get())));
    debug::log("image", "number ", 3);
    debug::pass("of another process");
    CHECK_THAT(packets(here), Contains("image: number 3\nof another process\n"));
    debug::silence();
    debug::log("image", "after");
    CHECK(packets(here) == "");
}

TEST_CASE("a reader of the log that is late or gone holds up nobody", "[base]") {
    Ended ended;
    auto&& [here, there] = make_channel();
    debug::start("test", std::move(there));
    for (int i = 0; i < 10'000; ++i) debug::log("image", "line ", i);
    CHECK_THAT(packets(here), Contains("image: line 0\n"));
    here.reset();
    debug::log("image", "to nobody");
}

TEST_CASE("a descriptor that has the log's number by now gets no line", "[base]") {
    Ended ended;
    auto&& [here, there] = make_channel();
    debug::start("test", std::move(there));
    auto&& [reading, writing] = sys::make_pipe();
    ::dup2(writing.get(), debug::descriptor());
    debug::log("image", "into a pipe");
    writing.reset();
    debug::end();
    // What is at that number now is somebody else's to close.
    ::close(16);
    CHECK(sys::read_all(reading.get(), 100, "a pipe") == "");
    CHECK(packets(here) == "");
}

TEST_CASE("a child's log comes before the next line of its parent", "[base]") {
    Ended ended;
    auto&& [reading, writing] = sys::make_pipe();
    int error = ::dup(STDERR_FILENO);
    ::dup2(writing.get(), STDERR_FILENO);
    debug::start("parent");
    ::dup2(error, STDERR_FILENO);
    ::close(error);
    writing.reset();
    Fd of_child = debug::socket_for_child();
    REQUIRE(of_child);
    std::string line = "of the child";
    REQUIRE(::send(of_child.get(), line.data(), line.size(), 0) > 0);
    debug::log("start", "of the parent");
    debug::end();
    CHECK_THAT(sys::read_all(reading.get(), 1000, "a pipe"),
               StartsWith("berth: of the child\nberth: debug ") && EndsWith(" start: of the parent\n"));
}
