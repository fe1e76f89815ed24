// What an image says about its process, carried in a squashfs file of ours behind the squashfs itself, where no other
// reader looks.
#pragma once
#include <optional>
#include <string>

#include "runtime/plan/image_config.hh"

namespace berth::squash {

/// Where a file of ours came from, and its process settings.
struct FileConfig {
    plan::ImageConfig process;
    std::string digest;     ///< of the manifest
    std::string reference;  ///< as text, may be empty
};

/// Appends the config to a finished squashfs file. Format: at the first multiple of 4096 from the superblock's
/// bytes_used on stands the line "berth-config 1 SIZE", then SIZE bytes of records as plan/records.hh has them (env,
/// entrypoint, cmd and volume as often as needed), then zeros up to a multiple of 4096. Throws SysError naming `what`.
void append_config(int fd, const FileConfig& config, const std::string& what);

/// The config of a squashfs file; nothing when it carries none, or one that cannot be understood. Bounded: at most 4
/// MiB are read.
std::optional<FileConfig> read_config(int fd, const std::string& what);

}  // namespace berth::squash
