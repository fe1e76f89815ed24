// What `apptainer exec`, `run` and `shell` are asked for, as a start of Berth's. Pure.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/overlays.hh"
#include "runtime/apptainer/variables.hh"
#include "runtime/plan/edit.hh"
#include "runtime/request/request.hh"

namespace berth::apptainer {

enum class Action { exec, run, shell, test, start };

/// "exec", as APPTAINER_COMMAND has it.
const char* word_of(Action action);

/// Who asks, and where.
struct Place {
    std::string cwd;   ///< absolute
    std::string home;  ///< absolute, of the account
    std::function<Found(const std::string& path)> find = [](const std::string&) { return Found::nothing; };
};

struct Start {
    plan::Request request;            ///< but for its image and the next
    std::string image;                ///< see image_of()
    std::vector<plan::MountRequest> unasked;  ///< mounts that come before those of the request, where they may be
    std::vector<std::string> set;     ///< NAME=VALUE of the container that beat the image's
    std::string home;                 ///< inside
    Overlays overlays;
    std::string hostname;             ///< empty: the node's
    bool in_place = false;            ///< what is written goes to the image, a directory
    bool plain_umask = false;         ///< 0022 in place of the caller's
    bool workdir_asked = false;       ///< request.workdir is of --cwd
    std::vector<std::string> left_out;  ///< targets inside of what Berth mounts of the node, and is not to
    std::vector<std::string> folders; ///< absolute, to be made on the node when they are missing
    std::vector<std::string> devices; ///< NAME=VALUE by which GPUs are asked for
    std::vector<std::string> warnings;
    /// Equal starts of a step may share the container: nothing in it is this one's alone, or that is asked for.
    bool joins = true;
    bool join_asked = false;          ///< by --sharens
    std::string app;                  ///< of --app; empty: none
    std::vector<plan::Edit> edits;    ///< what --dns changes, after all of the plan's
};

/// The image as Berth writes it: of Apptainer's URIs, or a path. Throws Error that says what to do for those that are
/// not opened.
std::string image_of(const std::string& image);

/// NAME of instance://NAME; empty for other images.
std::string instance_of(const std::string& image);

/// True when image_of() is that of a file or directory.
bool is_file(const std::string& image);

/// The names of what asks for folders in which images are cached and made, of which Berth's store takes the place:
/// "APPTAINER_CACHEDIR, --tmpdir"; empty: nothing does.
std::string places_asked_for(const std::vector<std::string>& environment, bool with_tmpdir);
/// Of oras://REGISTRY/NAME[:TAG][@DIGEST], whose SIF file is fetched first, what is behind the scheme; empty for other
/// images. image_of() leaves it as it is.
std::string artifact_of(const std::string& image);

/// The whole start but for the command and the variables of the user's, see variables.hh. Throws Error for what cannot
/// be.
Start start_of(Action action, const std::string& image, const Given& given, const Place& place);

/// What of the node the mounts of `start` show at the absolute `path`; empty: nothing of it, as far as they say.
std::string shown_at(const Start& start, const std::string& path);

}  // namespace berth::apptainer
