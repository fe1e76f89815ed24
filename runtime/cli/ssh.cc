#include "runtime/cli/ssh.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::cli {

namespace {

/// A path as one word of sshd_config(5) and ssh_config(5). In some of their values a percent sign begins a token.
std::string config_word(const std::string& path, bool has_tokens = true) {
    std::string out = "\"";
    for (char c : path) {
        if (c == '%' && has_tokens) out += '%';
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

bool is_of_terminal_or_language(std::string_view entry) {
    return entry.starts_with("TERM=") || entry.starts_with("LANG=") || entry.starts_with("LC_") ||
           entry.starts_with("SSH_CONNECTION=") || entry.starts_with("SSH_CLIENT=");
}

std::string name_of(std::string_view entry) { return std::string(entry.substr(0, entry.find('='))); }

/// The image's own: the node's would need the node's libraries.
constexpr const char* sftp_script =
    "for server in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server "
    "/usr/libexec/sftp-server /usr/lib/sftp-server; do [ ! -x \"$server\" ] || exec \"$server\"; done; "
    "echo 'berth: sftp into the container: the image has no sftp-server; install openssh-sftp-server in it, or copy by "
    "ssh HOST cat or tar' >&2; exit 127";

}  // namespace

const char* const ssh_host_alias = "berth";
const char* const sftp_word = "berth-sftp";

SshFiles::SshFiles(const std::string& home)
    : folder(home + "/.config/berth/ssh"),
      host_key(folder + "/host_key"),
      user_key(folder + "/user_key"),
      known_hosts(folder + "/known_hosts") {}

std::vector<std::string> sshd_words(const SshServer& server) {
    std::vector<std::string> settings = {
        "HostKey=" + config_word(server.files.host_key, false),
        cat("AuthorizedKeysFile=.ssh/authorized_keys .ssh/authorized_keys2 ",
            config_word(server.files.user_key + ".pub")),
        "ForceCommand=" + server.session,
        "AllowUsers=" + server.account,
        "AuthenticationMethods=publickey",
        "Subsystem=sftp " + std::string(sftp_word),
        "AcceptEnv=LANG LC_*",
        "LogLevel=ERROR",
        // What needs root, or a file of the node's.
        "UsePAM=no",
        "PidFile=none",
        "PrintMotd=no",
        "PrintLastLog=no",
        "Banner=none",
        "UseDNS=no",
        // Whoever can write the user's keys can start this server.
        "StrictModes=no",
        // What would run, or make files, on the node and not in the container.
        "PermitUserRC=no",
        "PermitUserEnvironment=no",
        "X11Forwarding=no",
        "AllowAgentForwarding=no",
        "AllowStreamLocalForwarding=no",
        "PermitTunnel=no",
        "GatewayPorts=no",
        "AllowTcpForwarding=yes",
    };
    std::vector<std::string> out = {"-i", "-e", "-f", "/dev/null"};
    for (std::string& setting : settings) {
        out.emplace_back("-o");
        out.push_back(std::move(setting));
    }
    return out;
}

std::vector<std::string> session_environment(std::vector<std::string> step, const std::vector<std::string>& of_sshd) {
    // Those of the terminal that srun was called from; they lead nowhere.
    std::erase_if(step, [](const std::string& entry) {
        return entry.starts_with("SSH_") || entry.starts_with("DISPLAY=") || entry.starts_with("XAUTHORITY=") ||
               entry.starts_with("TERM=");
    });
    for (const std::string& entry : of_sshd) {
        if (!is_of_terminal_or_language(entry)) continue;
        std::erase_if(step, [&](const std::string& before) { return name_of(before) == name_of(entry); });
        step.push_back(entry);
    }
    return step;
}

std::vector<std::string> session_command(const std::string& shell, const std::string& command) {
    std::string program = shell.empty() ? "/bin/sh" : shell;
    if (command.empty()) return {program, "-l"};
    if (command == sftp_word) return {"/bin/sh", "-c", sftp_script};
    return {program, "-c", command};
}

std::string ssh_config(const SshConfig& config) {
    std::string name = "berth-" + config.target.text(), out;
    for (const std::string& node : config.nodes) {
        bool first = node == config.nodes.front();
        out += cat("Host ", first ? name + " " : "", name, "-", node, "\n    ProxyCommand ");
        if (!config.login.empty()) out += cat("ssh -T ", config.login, " ");
        out += cat(config.program, " exec --job ", config.target.text(), " --node ", node, " --ssh-server\n");
        out += cat("    User ", config.account, "\n    HostKeyAlias ", ssh_host_alias, "\n");
        if (config.login.empty())
            out += cat("    UserKnownHostsFile ", config_word(config.files.known_hosts),
                       "\n    StrictHostKeyChecking yes\n    IdentityFile ", config_word(config.files.user_key), "\n");
        else
            out += "    StrictHostKeyChecking accept-new\n";
    }
    return out;
}

}  // namespace berth::cli
