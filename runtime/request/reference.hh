// Image references: `[docker://][USER@][REGISTRY#|REGISTRY/]NAME[:TAG][@sha256:...]`, a path, or one of the other
// sources. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"

namespace berth::plan {

struct Reference {
    enum class Kind {
        registry,
        path,            ///< a squashfs or SIF file, or a directory: /..., ./..., ../..., ~/...
        oci,             ///< oci:DIR[:REF], an image layout
        oci_archive,     ///< oci-archive:FILE[:REF]
        docker_archive,  ///< docker-archive:FILE[:NAME:TAG]
        dockerd,         ///< dockerd://NAME[:TAG]
        podman,          ///< podman://NAME[:TAG]
    };
    Kind kind = Kind::registry;
    std::string written;   ///< the whole as given: how messages and the answers for a job name the image
    std::string path;      ///< as given, for the kinds that have one
    std::string selector;  ///< what follows the path or the scheme, as given; may be empty

    // Of a registry's image; for docker_archive, dockerd and podman what the selector says, where
    // "registry-1.docker.io" stands for none.
    std::string user;      ///< login name for the registry, may be empty
    std::string registry;  ///< host[:port], the host in lower case; "registry-1.docker.io" when none was given
    std::string name;      ///< repository path, "library/" added for Docker Hub
    std::string tag;       ///< "latest" when neither tag nor digest was given; may be empty beside a digest
    std::optional<Digest> digest;

    /// The canonical text for messages, `REGISTRY/NAME[:TAG][@DIGEST]` or what was written. parse_reference reads it
    /// back as the same image.
    std::string text() const;

    /// True when the image is found by a path of the node.
    bool has_path() const {
        return kind == Kind::path || kind == Kind::oci || kind == Kind::oci_archive || kind == Kind::docker_archive;
    }
    bool operator==(const Reference&) const = default;
};

/// The same image with its path, if it has one, made absolute: from the directory `cwd`, or from `home` for one that
/// begins with ~/. Throws Error as with_home() does.
Reference with_absolute_path(Reference reference, const std::string& cwd, const std::string& home);

/// The same image with `home` for a ~ at the start of its path, as if that had been written. Throws Error as
/// with_home() does.
Reference image_with_home(Reference reference, const std::string& home);

/// Parses by the distribution specification's grammar of names, tags and digests. Throws Error whose text has a caret
/// under the mistake.
Reference parse_reference(std::string_view text);

/// True for a bare file name of an image file (`x.sqsh`, `x.tar`): a reference by grammar, but most likely meant as a
/// file. A caller that finds such a file in the working directory says how to write it instead of asking a registry.
bool looks_like_image_file(std::string_view text);

/// The error for an image that is a registry's name alone: what Slurm leaves of REGISTRY#IMAGE in an #SBATCH line.
/// Empty for all others.
std::string cut_image_mistake(std::string_view text);

/// The error line for such a name of which there is no file either: nobody means an image of a registry by it.
std::string missing_file_mistake(std::string_view text);

/// The error line that says to write `./x.sqsh`.
std::string image_file_mistake(std::string_view text);

}  // namespace berth::plan
