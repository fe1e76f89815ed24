// Image references: `[docker://][USER@][REGISTRY#|REGISTRY/]NAME[:TAG][@sha256:...]`, or a path. Pure.
#pragma once
#include <string>
#include <string_view>

namespace berth::plan {

struct Reference {
    enum class Kind { registry, path };
    Kind kind = Kind::registry;
    std::string path;  ///< as given, for Kind::path (/..., ./..., ../...)

    std::string user;      ///< login name for the registry, may be empty
    std::string registry;  ///< host[:port], the host in lower case; "registry-1.docker.io" when none was given
    std::string name;      ///< repository path, "library/" added for Docker Hub
    std::string tag;       ///< "latest" when neither tag nor digest was given; may be empty beside a digest
    std::string digest;    ///< "sha256:<64 hex>" or empty

    /// The canonical text for messages, `REGISTRY/NAME[:TAG][@DIGEST]` or the path. parse_reference reads it back as the same image.
    std::string text() const;
};

/// Parses by the distribution specification's grammar of names, tags and digests. Throws Error whose text has a caret under the mistake.
Reference parse_reference(std::string_view text);

/// True for "sha256:" and 64 lower-case hexadecimal digits, the only form that may reach a path or a URL.
bool is_digest(std::string_view text);

/// True for a bare file name of an image file (`x.sqsh`): a reference by grammar, but most likely meant as a file. A caller that
/// finds such a file in the working directory throws image_file_mistake instead of asking a registry.
bool looks_like_image_file(std::string_view text);

/// The finished line that tells the user to write `./x.sqsh`.
std::string image_file_mistake(std::string_view text);

}  // namespace berth::plan
