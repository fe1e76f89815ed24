// What the commands of `enroot` share: settings, and where the containers are.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/enroot/names.hh"
#include "runtime/enroot/settings.hh"
#include "runtime/request/request.hh"

namespace berth::cli {

/// A line on standard error in Enroot's form: "[WARN] ...".
void say(const char* kind, const std::string& line);

/// Who calls, and with which settings.
struct FrontEnd {
    enroot::Settings settings;
    plan::Site site;
    plan::Caller caller;

    /// Where containers of this kind are: what `enroot create` makes in ENROOT_DATA_PATH, if that is set.
    ContainerFolder folder_of(const enroot::Place& place) const;
    /// The path of that folder when ENROOT_DATA_PATH gives it; else empty: the site's.
    std::string own_folder_of(const enroot::Place& place) const;
    /// The container of that name; none when there is none. Throws Error for what can be no name.
    std::optional<enroot::Place> find(const std::string& name) const;
    /// The same; throws Error when there is none.
    enroot::Place get(const std::string& name) const;
    /// Where a new container of that name comes.
    enroot::Place place_for_new(const std::string& name) const;
    /// All containers of the caller on this node, by their names.
    std::vector<enroot::Place> all() const;
};

/// The scope of ContainerFolder that a place is in.
std::string scope_of(const enroot::Place& place);

/// Reads the settings; what of the environment has no effect is named on standard error.
FrontEnd front_end();

}  // namespace berth::cli
