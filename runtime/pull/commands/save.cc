// The command line of `berth-pull save`, which `berth save` and `berth run --save` start.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/transfer/output_file.hh"
#include "runtime/pull/transfer/save.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth::pull {

namespace {

/// Becomes able to read all files of the caller, whatever their modes: containers write files of mode 0 (/etc/shadow).
void read_everything() {
    if (::geteuid() == 0) return;
    int ends_with_parent = 0;
    ::prctl(PR_GET_PDEATHSIG, &ends_with_parent);
    try {
        sandbox::enter_user_namespace({::geteuid(), ::geteuid(), ::getegid(), ::getegid()});
    } catch (const Error&) {
        // Then such a file is what the error is about, if there is one.
    }
    // The new credentials took it back.
    ::prctl(PR_SET_PDEATHSIG, ends_with_parent);
}

/// A signal takes away what has been written so far. For a process of one thread.
void handle_signals() {
    static EndSignals signals;
    std::thread([] {
        pollfd entry{signals.descriptor(), POLLIN, 0};
        int signal = 0;
        while (signal == 0)
            if (::poll(&entry, 1, -1) > 0) signal = signals.take();
        OutputFile::abandon_all();
        ::_exit(128 + signal);
    }).detach();
}

}  // namespace

int save_command(int argc, char** argv) {
    CommandLine line("Write a container as one squashfs file.", "berth-pull save");
    SaveRequest request;
    ImportOptions options;
    std::string output, text;
    bool enroot_modes = false;
    auto digest = line.option("--digest", text, "of the image's manifest")
                      .needs(line.option("--store", request.store, "directory of the store"));
    line.option("--reference", request.reference, "of the image, for people");
    line.option("--image-file", request.image_file, "instead of an image of the store").excludes(digest);
    line.option("--upper-fd", request.upper, "descriptor of what the container wrote").required();
    line.option("--name", request.name, "of the container, for messages");
    line.option("-o,--output", output, "the file to write").required();
    line.flag("--enroot-modes", enroot_modes, "the container had the modes of mount.modes = \"enroot\"");
    line.flag("--force", options.force, "replace an existing file");
    line.flag("--plain", options.plain, "do not write /etc/environment and /etc/rc for Enroot");
    if (auto code = line.parse(argc, argv)) return *code;
    if (text.empty() == request.image_file.empty()) throw Error("berth-pull save: give --digest or --image-file");
    if (!text.empty()) request.digest = Digest(text);
    if (enroot_modes) request.modes = plan::ImageModes::enroot;
    read_everything();
    handle_signals();
    save_container(request, output, options);
    return 0;
}

}  // namespace berth::pull
