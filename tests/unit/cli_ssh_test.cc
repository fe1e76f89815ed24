#include <algorithm>

#include "runtime/base/text.hh"
#include "runtime/cli/ssh.hh"
#include "tests/catch.hh"

using namespace berth::cli;
using Catch::Contains;

namespace {

using Texts = std::vector<std::string>;

bool has(const Texts& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("ssh: the server takes its owner alone, by keys, and runs one command", "[cli][ssh]") {
    Texts words = sshd_words({"alice", SshFiles("/home/a%b"), "'/usr/bin/berth' enter 12.0"});
    CHECK(Texts(words.begin(), words.begin() + 4) == Texts{"-i", "-e", "-f", "/dev/null"});
    for (const char* setting :
         {"AllowUsers=alice", "AuthenticationMethods=publickey", "ForceCommand='/usr/bin/berth' enter 12.0",
          "HostKey=\"/home/a%b/.config/berth/ssh/host_key\"", "UsePAM=no", "PidFile=none", "PermitUserRC=no",
          "AllowAgentForwarding=no", "X11Forwarding=no", "AllowStreamLocalForwarding=no", "Subsystem=sftp berth-sftp",
          "AuthorizedKeysFile=.ssh/authorized_keys .ssh/authorized_keys2 "
          "\"/home/a%%b/.config/berth/ssh/user_key.pub\""}) {
        INFO(setting);
        CHECK(has(words, setting));
    }
}

TEST_CASE("ssh: a session has the step's environment, and the terminal's of ssh", "[cli][ssh]") {
    CHECK(session_environment({"A=1", "TERM=dumb", "LANG=C", "SSH_AUTH_SOCK=/tmp/x", "DISPLAY=:1", "SLURM_JOB_ID=12"},
                              {"TERM=xterm", "LANG=en", "LC_ALL=C", "PATH=/x", "SSH_TTY=/dev/pts/1",
                               "SSH_ORIGINAL_COMMAND=id", "SSH_CONNECTION=UNKNOWN 1 UNKNOWN 2"}) ==
          Texts{"A=1", "SLURM_JOB_ID=12", "TERM=xterm", "LANG=en", "LC_ALL=C", "SSH_CONNECTION=UNKNOWN 1 UNKNOWN 2"});
}

TEST_CASE("ssh: a session is a login shell, a command of the shell, or the image's sftp-server", "[cli][ssh]") {
    CHECK(session_command("/bin/bash", "") == Texts{"/bin/bash", "-l"});
    CHECK(session_command("", "") == Texts{"/bin/sh", "-l"});
    CHECK(session_command("/bin/bash", "id -un; echo 'x y'") == Texts{"/bin/bash", "-c", "id -un; echo 'x y'"});
    Texts sftp = session_command("/bin/bash", sftp_word);
    REQUIRE(sftp.size() == 3);
    CHECK(sftp[0] == "/bin/sh");
    CHECK_THAT(sftp[2], Contains("/usr/lib/openssh/sftp-server"));
}

TEST_CASE("ssh: words of a shell", "[cli][ssh]") {
    CHECK(berth::shell_word("/usr/bin/berth") == "'/usr/bin/berth'");
    CHECK(berth::shell_word("a'b c") == "'a'\\''b c'");
}

TEST_CASE("ssh: the configuration names the job, and each of its nodes", "[cli][ssh]") {
    SshConfig config{{"12", ""}, {"n1", "n2"}, "alice", "/usr/bin/berth", "", SshFiles("/home/alice")};
    CHECK(ssh_config(config) ==
          "Host berth-12 berth-12-n1\n"
          "    ProxyCommand /usr/bin/berth exec --job 12 --node n1 --ssh-server\n"
          "    User alice\n"
          "    HostKeyAlias berth\n"
          "    UserKnownHostsFile \"/home/alice/.config/berth/ssh/known_hosts\"\n"
          "    StrictHostKeyChecking yes\n"
          "    IdentityFile \"/home/alice/.config/berth/ssh/user_key\"\n"
          "Host berth-12-n2\n"
          "    ProxyCommand /usr/bin/berth exec --job 12 --node n2 --ssh-server\n"
          "    User alice\n"
          "    HostKeyAlias berth\n"
          "    UserKnownHostsFile \"/home/alice/.config/berth/ssh/known_hosts\"\n"
          "    StrictHostKeyChecking yes\n"
          "    IdentityFile \"/home/alice/.config/berth/ssh/user_key\"\n");
    config.target.step = "3";
    config.nodes = {"n1"};
    config.login = "login.example.org";
    CHECK(ssh_config(config) ==
          "Host berth-12.3 berth-12.3-n1\n"
          "    ProxyCommand ssh -T login.example.org /usr/bin/berth exec --job 12.3 --node n1 --ssh-server\n"
          "    User alice\n"
          "    HostKeyAlias berth\n"
          "    StrictHostKeyChecking accept-new\n");
}
