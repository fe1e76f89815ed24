// Sources on this node: image layouts, archives of docker save, and the daemons of docker and podman.
#pragma once
#include <memory>
#include <string>

#include "runtime/oci/source/files.hh"
#include "runtime/oci/source/source.hh"

namespace berth::oci {

/// An OCI image layout. `selector` is a name (org.opencontainers.image.ref.name in index.json) or a digest, perhaps
/// after an `@`; with an empty one the layout must have a single image. Every blob is verified against its name.
std::unique_ptr<Source> make_oci_source(std::shared_ptr<const Files> files, const std::string& selector,
                                        const std::string& what);

/// An archive of `docker save`. `wanted` says which image by its registry, name and tag, unless its selector is empty.
/// Such an archive has no manifest as a registry has it, so one is made from the config and the sizes of the layers:
/// its digest identifies the image in the store, and is no digest that a registry knows. Layers are known by their
/// diff_id alone, and come out unpacked.
std::unique_ptr<Source> make_docker_source(const Files& files, const plan::Reference& wanted, const std::string& what);

/// A root file system as one tar, as `docker export` writes it: an image of one layer, for this machine's architecture
/// and with nothing else in its config. Reads it once for its digest; `advance` comes to its size.
std::unique_ptr<Source> make_export_source(const Piece& tar, const std::string& what, const Advance& advance = {});

/// Where a daemon listens.
struct Daemon {
    std::string program;  ///< "docker" or "podman", for messages
    std::string socket;   ///< path of its unix socket
};

/// What the daemon calls the image: the 64 digits of its Id, which are the digest of its config. One request. Throws
/// Error with the remedy when there is no daemon, no permission, or no such image.
std::string find_in_daemon(const Daemon& daemon, const plan::Reference& reference);

/// The archive of the image with that Id, written to a scratch file.
Fd export_from_daemon(const Daemon& daemon, const std::string& id, const std::string& what, const Scratch& scratch,
                      const Advance& advance = {});

}  // namespace berth::oci
