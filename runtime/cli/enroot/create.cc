#include "runtime/cli/enroot/create.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/open_for_person.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/make.hh"
#include "runtime/container/named/remove.hh"
#include "runtime/request/reference.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

void create_container(const FrontEnd& front, const std::string& name, bool force, const RunOptions& options) {
    auto before = front.find(name);
    if (before && !force && !front.settings.force)
        throw Error(cat("File already exists: ", printable(front.folder_of(*before).path_of(before->name), 4096),
                        ", the container ", printable(name), "; remove it, or write --force"),
                    1);
    // First what may fail.
    OpenedImage opened = open_for_person(options, front.caller, front.site);
    if (before) remove_container(front.folder_of(*before), before->name, true, front.site, front.caller);
    enroot::Place place = front.place_for_new(name);
    ContainerFolder folder = front.folder_of(place);
    make_container(
        folder, place.name, options.request, opened, front.caller, front.site,
        data_path_to_note(front.settings.data_path, folder, front.caller, environment_of_this_process(), false));
    if (place.kind != enroot::Place::Kind::own) try {
            note_created(front.caller, folder, place.name);
        } catch (const Error& error) {
            say("WARN", cat("other nodes do not know of it: ", error.what()));
        }
    if (place.kind == enroot::Place::Kind::job) mark_job(front.caller, place.job, folder.path());
    // Scripts that use this program alone have no step that does so at its end.
    sweep_jobs_on_node(front.site, front.caller, environment_of_this_process());
}

int enroot_create(int argc, char** argv) {
    CommandLine line("Make a container of a squashfs file. It needs the file no more.", "enroot create");
    std::string file, name;
    bool force = false;
    line.option("-n,--name", name, "of the container; without it the file's name less .sqsh")
        .completed_by(Completion::containers);
    line.flag("-f,--force", force, "replace a container of that name");
    line.argument("FILE", file, "squashfs file").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    if (name.empty()) name = enroot::container_of_file(file);
    RunOptions options;
    options.request.image = plan::parse_reference(enroot::path_of_file(file));
    create_container(front, name, force, options);
    return 0;
}

}  // namespace berth::cli
