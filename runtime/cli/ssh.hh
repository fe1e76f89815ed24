// ssh into the container of a job's step: what ssh(1) and sshd(8) are told. Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/cli/running_job.hh"

namespace berth::cli {

/// Where a user's keys are, in `home`: the host key of sshd, and a key of the user's for ssh where there is no other.
struct SshFiles {
    SshFiles() = default;
    explicit SshFiles(const std::string& home);
    std::string folder, host_key, user_key, known_hosts;
};

/// The name by which ssh knows every host key of Berth's, whatever the job and node.
extern const char* const ssh_host_alias;

/// What `Subsystem sftp` of the server names. It is no program: the session's command is this word then.
extern const char* const sftp_word;

struct SshServer {
    std::string account;  ///< who may log in
    SshFiles files;
    std::string session;  ///< the command of each session, for a shell
};

/// The arguments of an sshd that an ordinary user starts for one connection, on its standard input and output. It reads
/// no file of the node's settings. All that a session runs is `server.session`; TCP ports are forwarded.
std::vector<std::string> sshd_words(const SshServer& server);

/// The session's environment: that of the step, and of what sshd has set the terminal's type, the language and the
/// connection.
std::vector<std::string> session_environment(std::vector<std::string> step, const std::vector<std::string>& of_sshd);

/// What a session runs in the container: the user's shell, the command that ssh was given, or the image's sftp-server.
/// `shell` is the container's SHELL (empty: /bin/sh); `command` what ssh was given, empty for none.
std::vector<std::string> session_command(const std::string& shell, const std::string& command);

struct SshConfig {
    JobTarget target;
    std::vector<std::string> nodes;
    std::string account, program;  ///< the user's name on the nodes, and the path of berth
    std::string login;             ///< where ssh reaches srun from; empty: it runs there
    SshFiles files;
};

/// Blocks for ssh_config(5): `berth-JOB` for the first node, `berth-JOB-NODE` for each.
std::string ssh_config(const SshConfig& config);

}  // namespace berth::cli
