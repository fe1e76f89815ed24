// A hostile image (tests/hostile/escape) tries the known ways out of a container, and gets nothing.
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "runtime/base/mounts.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "tests/kernel/named_support.hh"
#include "tests/kernel/root.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

std::string escape_program() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "escape";
}

/// What the node has and no container: a secret, and a folder that is mounted read-only.
struct Node {
    Folder folder;
    std::string token = cat("secret of process ", ::getpid());

    Node() {
        for (const char* name : {"node", "ro"}) folder.directory(name);
        folder.file("node/secret", token);
        folder.file("ro/data", "data");
        if (::symlink(secret().c_str(), (folder / "link").c_str()) != 0) throw SysError("making a symlink");
    }
    std::string secret() const { return folder / "node/secret"; }
    /// What Berth may not have touched: names, sizes and modes.
    std::string state() const {
        std::string out;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / ""))
            if (std::string path = entry.path(); path.starts_with(folder / "node") || path.starts_with(folder / "ro"))
                out += cat(path, " ", mode_of(path), entry.is_regular_file() ? slurp(path) : "", "\n");
        return out;
    }
    std::vector<std::string> variables() const { return {"ESCAPE_SECRET=" + secret(), "ESCAPE_TOKEN=" + token}; }
};

/// Symlinks to the node's folder stand where a start mounts and writes.
struct HostileImage : NamedScene {
    explicit HostileImage(const Node& node) {
        folder.file("hostile.sqfs", "");
        Fd file = sys::open_file(folder / "hostile.sqfs", O_RDWR);
        squash::LayerWriter writer(file.get(), {});
        for (const char* path : {"bin", "etc", "proc", "ro", "tmp", "var", "dev"}) writer.add_directory(path, {});
        std::string up = "../../../../../../../..";
        for (const char* name : {"etc/hosts", "etc/passwd", "etc/group", "etc/resolv.conf"})
            writer.add_symlink(name, {}, up + node.secret());
        for (const char* name : {"run", "sys", "var/tmp", "dev/shm", "dev/pts"})
            writer.add_symlink(name, {}, node.folder / "node");
        writer.add_symlink("link", {}, node.secret());
        for (int fd = 3; fd < 24; ++fd) writer.add_symlink(cat("at-", fd), {}, cat("/proc/self/fd/", fd));
        add_file(writer, "bin/escape", slurp(escape_program()), 0755);
        add_file(writer, "bin/escape-setuid", slurp(escape_program()), 04755);
        writer.finish();
        image = folder / "hostile.sqfs";
    }
};

/// A process of the user's outside of containers that has all there is to take.
class Victim {
  public:
    explicit Victim(const Node& node) : process_(words(node)) {
        std::string said;
        read_until(process_.output(), said, "\n");
        if (!said.starts_with("victim ")) throw Error("the process to try ways on says: " + said);
    }

  private:
    static std::vector<std::string> words(const Node& node) {
        std::vector<std::string> out = node.variables();
        out.insert(out.begin(), {"/usr/bin/env", "-i"});
        out.insert(out.end(), {escape_program(), "victim", node.folder / ""});
        return out;
    }
    Beside process_;
};

/// What became of each way, by its name.
std::map<std::string, std::string> verdicts(const std::string& text) {
    std::map<std::string, std::string> out;
    for (const std::string& line : split(text, '\n'))
        if (size_t at = line.find(": "); at != line.npos && line.find(' ') > at)
            out[line.substr(0, at)] = line.substr(at + 2);
    return out;
}

/// The names of the ways whose control is one of `controls`, all when there is none.
std::vector<std::string> ways(const std::string& control = "") {
    std::vector<std::string> out;
    for (const std::string& line : split(output_of({escape_program(), "list"}), '\n'))
        if (std::vector<std::string> parts = split(line, '\t'); parts.size() == 4)
            if (control.empty() || parts[1] == control) out.push_back(parts[0]);
    return out;
}

/// `berth OPTIONS IMAGE escape WORDS`, started with descriptors of the node's root and secret open.
std::string attempts(const HostileImage& image, const Node& node, const std::vector<std::string>& options,
                     const std::vector<std::string>& variables = {}, const std::vector<std::string>& program = {}) {
    std::vector<std::string> words{"run", "--mount", node.folder / "ro" + ":/ro:ro"};
    for (const std::string& variable : node.variables()) words.insert(words.end(), {"-e", variable});
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {image.image, "/bin/escape"});
    words.insert(words.end(), program.begin(), program.end());
    std::vector<std::string> all = image.command("berth", words);
    all.insert(all.begin() + 2, variables.begin(), variables.end());
    all.insert(all.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"});
    Outcome seen = as_user(
        [&] {
            Victim victim(node);
            Beside run(all, [&] {
                ::dup2(::open("/", O_RDONLY), 8);
                ::dup2(::open(node.secret().c_str(), O_RDWR), 9);
            });
            std::string text = sys::read_all(run.output(), 1 << 20, "what the ways came to");
            return cat(text, "|", code_of(run.wait()));
        },
        std::chrono::seconds(120));
    return seen.error + seen.text;
}

/// But for the ways in `granted`.
void check_nothing_else_is_got(const std::string& text, const std::vector<std::string>& granted) {
    INFO(text);
    std::map<std::string, std::string> found = verdicts(text);
    std::vector<std::string> all = ways();
    REQUIRE(all.size() >= 30);
    CHECK(found.size() == all.size());
    size_t refused = 0;
    for (const auto& [name, verdict] : found) {
        if (std::ranges::find(granted, name) == granted.end())
            CHECK_THAT(cat(name, ": ", verdict), !Contains("got it"));
        refused += verdict.starts_with("refused");
    }
    // Some need what this kernel may lack, such as kexec.
    CHECK(refused >= 50);
    CHECK_THAT(text, Catch::EndsWith(cat("tried ", all.size(), "\n|", granted.empty() ? 0 : 1)));
}

void check_nothing_is_got(const std::string& text) { check_nothing_else_is_got(text, {}); }

}  // namespace

TEST_CASE("escape: an image that tries all known ways out gets nothing", "[kernel][escape]") {
    NEED_CONTAINERS();
    Node node;
    HostileImage image(node);
    std::string before = node.state();
    std::vector<std::string> options = GENERATE(as<std::vector<std::string>>{}, std::vector<std::string>{},
                                                std::vector<std::string>{"--root"},
                                                std::vector<std::string>{"--pid", "--ipc", "--net"});
    check_nothing_is_got(attempts(image, node, options));
    CHECK(node.state() == before);
}

TEST_CASE("escape: nor from a named container, nor from an unpacked image", "[kernel][escape]") {
    NEED_CONTAINERS();
    Node node;
    HostileImage image(node);
    std::string before = node.state();
    check_nothing_is_got(attempts(image, node, {"--name", "hostile"}));
    check_nothing_is_got(attempts(image, node, {}, {"BERTH_MOUNT_ENGINE=unpack"}));
    CHECK(node.state() == before);
}

TEST_CASE("escape: with --nested an image gets namespaces of its own, and out of these nothing more",
          "[kernel][escape]") {
    NEED_CONTAINERS();
    Node node;
    HostileImage image(node);
    std::string before = node.state();
    std::vector<std::string> options = GENERATE(as<std::vector<std::string>>{}, std::vector<std::string>{"--nested"},
                                                std::vector<std::string>{"--nested", "--root"},
                                                std::vector<std::string>{"--nested", "--pid", "--ipc", "--net"});
    // What these ways get is a namespace, a mount in it, or the device for one. SECURITY.md has each.
    std::vector<std::string> granted{"nested-namespace", "32-bit-calls", "x32-calls", "device-files",
                                     "fuse",             "overlay",      "release-agent"};
    std::string from_container = attempts(image, node, options);
    check_nothing_else_is_got(from_container, granted);
    CHECK_THAT(from_container, Contains("nested-namespace: got it"));
    // Root of its own namespaces may mount in them, and name another root for them.
    granted.insert(granted.end(), {"mount-tmpfs", "mount-proc", "new-mount-calls", "pivot-root", "capset"});
    std::string from_within = attempts(image, node, options, {}, {"within"});
    check_nothing_else_is_got(from_within, granted);
    CHECK_THAT(from_within, Contains("mount-tmpfs: got it"));
    CHECK(node.state() == before);
}

TEST_CASE("escape: a working directory behind a descriptor leads nowhere", "[kernel][escape]") {
    NEED_CONTAINERS();
    Node node;
    HostileImage image(node);
    std::string said;
    for (int fd = 3; fd < 24; ++fd)
        for (const char* place : {"/proc/self/fd/", "/at-"}) said += attempts(image, node, {"-w", cat(place, fd)});
    CHECK_THAT(said, !Contains("got it") && !Contains("tried") && Contains("entering the working directory"));
}

TEST_CASE("escape: a berth that is the user's own file cannot be changed by way of /proc/PID/exe", "[kernel][escape]") {
    NEED_CONTAINERS();
    NamedScene scene([](squash::LayerWriter& writer) {
        for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
        writer.add_directory("usr", {});
        // Executed by berth, this is berth.
        add_file(writer, "bin/again", "#!/proc/self/exe\n", 0755);
    });
    scene.folder.directory("own");
    std::string berth = scene.folder / "own/berth", there = scene.command("berth", {}).back();
    scene.folder.file("own/berth", "");
    // With a sanitizer it is a hundred megabytes.
    std::filesystem::copy_file(there, berth, std::filesystem::copy_options::overwrite_existing);
    REQUIRE(::chmod(berth.c_str(), 0755) == 0);
    Outcome seen = as_user([&] {
        // Its loader waits here for a library for as long as the attack takes.
        if (::mkfifo((scene.folder / "own/fifo").c_str(), 0600) != 0) throw SysError("making a pipe");
        std::vector<std::string> words = scene.command(
            "berth", {"run", "--name", "own", "--mount", "/usr:/usr:ro", "--mount", scene.folder / "own" + ":/own",
                      "-e", "LD_PRELOAD=/own/fifo", scene.image, "/bin/again"});
        std::replace(words.begin(), words.end(), there, berth);
        Beside run(words);
        const std::string script =
            "until cd /own; do sleep 0.1; done; while :; do for p in /proc/[0-9]*; do e=$(readlink $p/exe) || "
            "continue; "
            "case $e in */own/berth*) chmod 0700 $p/exe; echo tried; exit;; esac; done; sleep 0.1; done 2> /dev/null";
        std::vector<std::string> attack =
            scene.command("berth", {"exec", "own", "/usr/bin/bash", "--norc", "-c", script});
        std::string out;
        for (int i = 0; i < 50 && out.find("tried") == out.npos; ++i, ::usleep(200'000)) out = output_of(attack);
        run.send(SIGKILL);
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "tried\n|0");
    CHECK_THAT(mode_of(berth), Catch::StartsWith("100755 "));
    scene.program("berth", {"rm", "--force", "own"});
}

TEST_CASE("escape: a variable of the image's is that of no program outside of the container", "[kernel][escape]") {
    // CVE-2025-23266: LD_PRELOAD of an image, in a hook that its runtime executes.
    NEED_CONTAINERS();
    SiteScene scene;
    Fd file = sys::open_file(scene.folder / "preloads.sqfs", O_RDWR | O_CREAT, 0644);
    squash::LayerWriter writer(file.get(), {});
    fill_sample(writer);
    for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
    writer.add_directory("usr", {});
    add_file(writer, "etc/environment", "LD_PRELOAD=/evil.so\nOTHER=of the image\n");
    writer.finish();
    const std::string said = scene.folder / "said";
    scene.hooks = {{"a", cat("env > ", said, "\necho '{}'\n")}};
    scene.image = scene.folder / "preloads.sqfs";
    Outcome seen = scene.berth("", {"run", scene.image, "/bin/inside", "held"});
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::EndsWith("|0"));
    CHECK_THAT(slurp(said), Contains("PATH=") && !Contains("LD_PRELOAD") && !Contains("of the image"));
    // It is that of the container's programs.
    Outcome inside = scene.shell("", "echo $LD_PRELOAD; echo $OTHER");
    CHECK_THAT(inside.text, Contains("/evil.so\nof the image\n|0"));
}

TEST_CASE("escape: outside of a container a user's attempts succeed", "[kernel][escape]") {
    NEED_CONTAINERS();
    Node node;
    std::vector<std::string> names = ways("user");
    std::vector<std::string> words{"/usr/bin/env", "-i"};
    for (const std::string& variable : node.variables()) words.push_back(variable);
    for (const std::string& variable :
         {"ESCAPE_CONTROL=" + node.folder / "node", "ESCAPE_LINK=" + node.folder / "link",
          "ESCAPE_READ_ONLY=" + node.folder / "ro"})
        words.push_back(variable);
    words.push_back(escape_program());
    words.insert(words.end(), names.begin(), names.end());
    Outcome seen = as_user(
        [&] {
            Victim victim(node);
            Beside run(words, [&] {
                ::dup2(::open("/", O_RDONLY), 8);
                ::dup2(::open(node.secret().c_str(), O_RDWR), 9);
            });
            return sys::read_all(run.output(), 1 << 20, "what the ways came to");
        },
        std::chrono::seconds(60));
    CHECK(seen.error == "");
    std::map<std::string, std::string> found = verdicts(seen.text);
    CHECK(found.size() == names.size());
    for (const auto& [name, verdict] : found) CHECK_THAT(cat(name, ": ", verdict), Contains("got it"));
}

namespace {

/// In a process of its own, root: a chroot as the oldest container runtimes had it.
std::string attempts_in_chroot(const Node& node, const std::string& jail, const std::vector<std::string>& names) {
    if (::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0) throw SysError("leaving the node's namespaces");
    sys::make_mounts_private();
    for (const char* name : {"proc", "sys", "dev", "etc"})
        if (::mount(cat("/", name).c_str(), cat(jail, "/", name).c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
            throw SysError(cat("mounting ", name));
    Victim victim(node);
    std::vector<std::string> words{"/bin/escape"};
    words.insert(words.end(), names.begin(), names.end());
    Beside run(words, [&] {
        ::setenv("ESCAPE_SECRET", node.secret().c_str(), 1);
        ::setenv("ESCAPE_TOKEN", node.token.c_str(), 1);
        ::setenv("ESCAPE_CONTROL", "/", 1);
        if (::chroot(jail.c_str()) != 0 || ::chdir("/") != 0) ::_exit(9);
    });
    return sys::read_all(run.output(), 1 << 20, "what the ways came to");
}

}  // namespace

TEST_CASE("escape: root's attempts succeed from a plain chroot", "[kernel][escape][root]") {
    NEED_ROOT();
    Node node;
    for (const char* name : {"jail", "jail/bin", "jail/tmp", "jail/proc", "jail/sys", "jail/dev", "jail/etc"})
        node.folder.directory(name);
    for (const char* name : {"jail/bin/escape", "jail/bin/escape-setuid"}) {
        node.folder.file(name, slurp(escape_program()));
        REQUIRE(::chown((node.folder / name).c_str(), 0, 0) == 0);
        REQUIRE(::chmod((node.folder / name).c_str(), name == std::string("jail/bin/escape") ? 0755 : 04755) == 0);
    }
    std::vector<std::string> names = ways("root");
    Outcome seen = in_child([&] { return attempts_in_chroot(node, node.folder / "jail", names); },
                            std::chrono::seconds(60));
    INFO(seen.text);
    CHECK(seen.error == "");
    std::map<std::string, std::string> found = verdicts(seen.text);
    CHECK(found.size() == names.size());
    for (const auto& [name, verdict] : found) {
        // Without the thing itself nothing can be tried: a kernel without kexec, for one.
        if (verdict.starts_with("absent")) WARN("this kernel has no " << name << ": " << verdict);
        CHECK_THAT(cat(name, ": ", verdict), Contains("got it") || Contains("absent"));
    }
}
