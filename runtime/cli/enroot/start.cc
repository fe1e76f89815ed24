// `enroot start` and `enroot batch`.
#include "runtime/enroot/start.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/conf.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/cli/run_new.hh"
#include "runtime/config/command_line.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

constexpr size_t script_limit = 1 << 20;

struct StartLine {
    enroot::StartWords words;
    std::string rc, conf;
};

void declare(CommandLine& line, StartLine& start) {
    enroot::StartWords& words = start.words;
    line.option("-c,--conf", start.conf, "configuration script: #ENROOT_NAME=VALUE, environ(), mounts(), rc()")
        .completed_by(Completion::files);
    line.option("-e,--env", words.environment, "KEY: keep the value that is set outside; KEY=VALUE: set it")
        .completed_by(Completion::variables);
    line.option("--rc", start.rc, "script that runs in place of the image's /etc/rc").completed_by(Completion::files);
    line.flag("-r,--root", words.root, "be root in the container");
    line.flag("-w,--rw", words.rw, "writable root file system");
    line.option("-m,--mount", words.mounts, "SRC[:DST[:TYPE][:OPTION,...]]: mount a file or folder of the node")
        .completed_by(Completion::files);
    line.flag("--pid", words.pid, "processes of its own");
    line.flag("--net", words.net, "a network of its own, with nothing but loopback");
    line.flag("--ipc", words.ipc, "own shared memory and message queues");
    line.flag("--uts", words.uts, "a host name of its own");
    line.argument("NAME", words.name, "a container, or a squashfs file").required();
    line.ends_with_command(words.command);
}

/// The script's directives go before what is in the environment, as with Enroot.
void take_conf(const std::string& path, StartLine& start) {
    ScriptConfig conf = read_script(path, start.words.command);
    for (const std::string& text : conf.directives)
        ::setenv(text.substr(0, text.find('=')).c_str(), text.substr(text.find('=') + 1).c_str(), 1);
    std::vector<std::string>& environment = start.words.environment;
    // What the command line says comes last, and wins.
    environment.insert(environment.begin(), conf.environment.begin(), conf.environment.end());
    start.words.entries = conf.mounts;
    if (!conf.rc.empty() && start.rc.empty()) {
        start.words.script = conf.rc;
        start.words.has_script = true;
    }
    if (conf.has_hooks)
        say("WARN", cat(printable(path, 4096),
                        ": its function hooks() does not run: what it would change in the container's files is not "
                        "theirs to change here; see berth-hooks(7)"));
}

void take_rc(StartLine& start) {
    if (start.rc.empty()) return;
    Fd file = sys::open_file(start.rc, O_RDONLY);
    start.words.script = sys::read_all(file.get(), script_limit, printable(start.rc, 4096));
    start.words.has_script = true;
}

bool is_regular(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

RunOptions options_of(const StartLine& start, const FrontEnd& front) {
    const enroot::StartWords& words = start.words;
    RunOptions out;
    out.request = enroot::request_of(words, front.settings);
    out.command = words.has_script ? enroot::script_command(words.script, words.command) : words.command;
    out.wrapper = enroot::wrapper_of(front.settings);
    out.fallback = {"/bin/sh"};
    out.passes = enroot::passes;
    take_environment(words.environment, out);
    return out;
}

int start_it(StartLine& start) {
    take_rc(start);
    FrontEnd front = front_end();
    RunOptions options = options_of(start, front);
    const std::string& name = start.words.name;
    if (is_regular(name)) {
        options.request.image = plan::parse_reference(enroot::path_of_file(name));
        return run_new(options);
    }
    if (name.find('/') != name.npos) throw Error(cat("No such file or directory: ", printable(name, 4096)), 1);
    enroot::Place place = front.get(name);
    ContainerFolder folder = front.folder_of(place);
    options.folder = folder.path();
    options.scope = folder.scope();
    // Each start has mounts and processes of its own, over the same files.
    options.request.name = {place.name, plan::NameMode::no_exec};
    return run_named(options);
}

}  // namespace

int enroot_start(int argc, char** argv) {
    CommandLine line("Run a command in a container, or in a squashfs file.", "enroot start");
    StartLine start;
    declare(line, start);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (!start.conf.empty()) take_conf(start.conf, start);
    return start_it(start);
}

int enroot_batch(int argc, char** argv) {
    CommandLine line("Start the container that a configuration script names by #ENROOT_ROOTFS=NAME.", "enroot batch");
    StartLine start;
    std::string conf;
    line.argument("FILE", conf, "the script").required();
    line.ends_with_command(start.words.command);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    take_conf(conf, start);
    const char* rootfs = std::getenv("ENROOT_ROOTFS");
    if (rootfs == nullptr || *rootfs == '\0')
        throw Error(cat(printable(conf, 4096), ": it names no container; write the line #ENROOT_ROOTFS=NAME"), 1);
    start.words.name = rootfs;
    return start_it(start);
}

}  // namespace berth::cli
