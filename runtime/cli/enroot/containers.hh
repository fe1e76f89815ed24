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
    enroot::Settings settings;  ///< its data_path absolute
    plan::Site site;
    plan::Caller caller;

    /// Where the container is. One that an earlier release has made is in ENROOT_DATA_PATH itself.
    ContainerFolder folder_of(const enroot::Place& place) const;
    /// The container of that name; none when there is none. Throws Error for what can be no name.
    std::optional<enroot::Place> find(const std::string& name) const;
    /// The same; throws Error when there is none.
    enroot::Place get(const std::string& name) const;
    /// Where a new container of that name comes.
    enroot::Place place_for_new(const std::string& name) const;
    /// The containers of the caller on this node by their names: with ENROOT_DATA_PATH those that were made with it.
    std::vector<enroot::Place> all() const;
    /// All folders of containers, whatever ENROOT_DATA_PATH is.
    std::vector<ContainerFolder> folders() const;

  private:
    std::string scope_of(const enroot::Place& place) const;
    /// The folder of an earlier release in ENROOT_DATA_PATH; empty for none.
    std::string earlier_folder() const;
};

/// Reads the settings; what of the environment has no effect is named on standard error.
FrontEnd front_end();

}  // namespace berth::cli
