// `enroot remove` and `enroot export`.
#include <sys/stat.h>

#include <filesystem>
#include <iostream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/save_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/remove.hh"

namespace berth::cli {

namespace {

bool is_confirmed(const std::string& path) {
    std::cerr << "Do you really want to delete " << printable(path, 4096) << "? [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y";
}

/// What another node has left in the home of a container that is not on this one.
bool forget_elsewhere(const FrontEnd& front, const std::string& name, bool force) {
    bool out = false;
    for (const enroot::Place& place : enroot::places_of(name))
        if (place.kind != enroot::Place::Kind::own && (force || is_confirmed(name)))
            out |= forget_created(front.caller, front.folder_of(place), place.name);
    return out;
}

void remove_one(const FrontEnd& front, const std::string& name, bool force) {
    if (!front.find(name) && forget_elsewhere(front, name, force)) return;
    enroot::Place place = front.get(name);
    ContainerFolder folder = front.folder_of(place);
    if (!force && !is_confirmed(folder.path_of(place.name))) return;
    remove_container(folder, place.name, force, front.site, front.caller);
    forget_created(front.caller, folder, place.name);
}

}  // namespace

int enroot_remove(int argc, char** argv) {
    CommandLine line("Remove containers with all that they wrote.", "enroot remove");
    std::vector<std::string> names;
    bool force = false;
    line.flag("-f,--force", force, "do not ask, and end what runs in them");
    line.argument("NAME", names, "of the containers").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    int code = 0;
    for (const std::string& name : names) try {
            remove_one(front, name, force || front.settings.force);
        } catch (const Error& error) {
            // The others are removed all the same.
            say("ERROR", error.what());
            code = 1;
        }
    return code;
}

int enroot_export(int argc, char** argv) {
    CommandLine line("Write a container, its image with what it wrote, as a squashfs file.", "enroot export");
    std::string name, file;
    bool force = false;
    line.flag("-f,--force", force, "replace an existing file");
    line.option("-o,--output", file, "the file to write; without it NAME.sqsh").completed_by(Completion::files);
    line.argument("NAME", name, "of the container").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    FrontEnd front = front_end();
    enroot::Place place = front.get(name);
    if (file.empty()) file = name + ".sqsh";
    force = force || front.settings.force;
    if (struct stat st {}; !force && ::lstat(file.c_str(), &st) == 0)
        throw Error(cat("File already exists: ", printable(std::filesystem::absolute(file).string(), 4096),
                        "; remove it, or write --force"),
                    1);
    std::vector<std::string> flags;
    if (force) flags.push_back("--force");
    save_named(front.folder_of(place), place.name, file, flags);
}

}  // namespace berth::cli
