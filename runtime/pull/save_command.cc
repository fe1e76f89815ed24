// The command line of `berth-pull save`, which `berth save` and `berth run --save` start.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "runtime/base/end_signals.hh"
#include "runtime/base/error.hh"
#include "runtime/pull/output_file.hh"
#include "runtime/pull/save.hh"
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
void heed_signals() {
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
    CLI::App app("Write a container as one squashfs file.", "berth-pull save");
    SaveRequest request;
    ImportOptions options;
    std::string output;
    auto* digest = app.add_option("--digest", request.digest, "of the image's manifest")->needs(app.add_option("--store", request.store, "directory of the store"));
    app.add_option("--reference", request.reference, "of the image, for people");
    app.add_option("--image-file", request.image_file, "instead of an image of the store")->excludes(digest);
    app.add_option("--upper-fd", request.upper, "descriptor of what the container wrote")->required();
    app.add_option("--name", request.name, "of the container, for messages");
    app.add_option("-o,--output", output, "the file to write")->required();
    app.add_flag("--force", options.force, "replace it when it exists");
    app.add_flag("--plain", options.plain, "do not write /etc/environment and /etc/rc for Enroot");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    if (request.digest.empty() == request.image_file.empty()) throw Error("berth-pull save: give --digest or --image-file");
    read_everything();
    heed_signals();
    save_container(request, output, options);
    return 0;
}

}  // namespace berth::pull
