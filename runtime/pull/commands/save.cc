// The command line of `berth-pull save`, which `berth save` and `berth run --save` start.
#include "runtime/base/error.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/save_process.hh"
#include "runtime/pull/export/save.hh"

namespace berth::pull {

int save_command(int argc, char** argv) {
    CommandLine line("Write a container as one squashfs or SIF file.", "berth-pull save");
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
    line.flag("--plain", options.plain, "without the files for Enroot or Apptainer");
    if (auto code = line.parse(argc, argv)) return *code;
    if (text.empty() == request.image_file.empty()) throw Error("berth-pull save: give --digest or --image-file");
    if (!text.empty()) request.digest = Digest(text);
    options.sif = output.ends_with(".sif");
    if (enroot_modes) request.modes = plan::ImageModes::enroot;
    read_everything();
    abandon_at_signals();
    save_container(request, output, options);
    return 0;
}

}  // namespace berth::pull
