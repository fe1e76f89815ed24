// The names that Enroot gives to containers and files, and what they mean here. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/reference.hh"

namespace berth::enroot {

/// Where a container of Enroot's name is kept.
struct Place {
    enum class Kind {
        own,     ///< made by `enroot create`
        shared,  ///< of --container-name: pyxis_NAME
        job,     ///< the same where each job has names of its own: pyxis_JOB_NAME
    };
    Kind kind = Kind::own;
    std::string name;  ///< there
    uint32_t job = 0;
    bool operator==(const Place&) const = default;

    /// The name that Enroot's users know.
    std::string shown() const;
};

/// The scope of what `enroot create` makes, see ContainerFolder: apart from the containers of steps, as with Enroot.
inline constexpr const char* own_scope = "enroot";

/// What `name` may mean, the likelier first: pyxis_12_x is the x of job 12, or the 12_x of --container-name. Throws
/// Error for what cannot be the name of a container.
std::vector<Place> places_of(std::string_view name);

/// The image that a URI of `enroot import` names (docker://, dockerd://, podman://). Throws Error for another one.
plan::Reference image_of(const std::string& uri);

/// What Enroot 4.1.2 calls the file that `import` makes without -o, less ".sqsh", and the container that `load` makes
/// without -n: NAME+TAG, with + for each / of the name (docker::import in src/docker.sh).
std::string base_name_of(const plan::Reference& image);

/// What `import` calls the file that it makes of another one, less ".sqsh": its name without the ending of an archive.
std::string base_name_of_file(std::string_view path);

/// The container that `create` makes of a file without -n: the file's name without ".sqsh".
std::string container_of_file(std::string_view path);

/// The path of a file as an image is written: with a / or . at its start.
std::string path_of_file(const std::string& path);

}  // namespace berth::enroot
