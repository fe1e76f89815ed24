// `berth-pull agree` in a process of its own, as srun starts it.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/fd.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/request/frozen.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

namespace berth::pull {

class TrackerProcess {
  public:
    explicit TrackerProcess(unsigned nodes) {
        Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        REQUIRE(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
        REQUIRE(::listen(listening.get(), SOMAXCONN) == 0);
        REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        port = ntohs(address.sin_port);
        // What the test has printed is not to come out of the child.
        std::fflush(stdout);
        pid_ = fixtures::forked();
        if (pid_ == 0) serve(listening, nodes);
    }
    ~TrackerProcess() {
        fixtures::kill_one(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    TrackerProcess(const TrackerProcess&) = delete;
    TrackerProcess& operator=(const TrackerProcess&) = delete;

    static sockaddr_in loopback(unsigned port) {
        sockaddr_in out{};
        out.sin_family = AF_INET;
        out.sin_port = htons(static_cast<uint16_t>(port));
        out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return out;
    }
    /// Somebody who has connected.
    Fd stranger() const {
        Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address = loopback(port);
        REQUIRE(out);
        REQUIRE(::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        return out;
    }
    MeetingPlace place(const std::string& node, unsigned rank = 0) const {
        return {"127.0.0.1", std::to_string(port), secret, node, rank};
    }

    unsigned port = 0;
    std::string secret = random_word();

  private:
    [[noreturn]] void serve(const Fd& listening, unsigned nodes) {
        ::dup2(listening.get(), STDIN_FILENO);
        ::setenv(plan::secret_variable, secret.c_str(), 1);
        std::string number = std::to_string(nodes);
        char program[] = "agree";
        char* words[] = {program, number.data(), nullptr};
        try {
            agree_command(2, words);
        } catch (const std::exception&) {
        }
        ::_exit(1);
    }

    pid_t pid_;
};

}  // namespace berth::pull
