// How the store remembers what an archive or image layout meant, so that one that has not changed is not read again.
#pragma once
#include <cstdint>

#include "runtime/request/reference.hh"

namespace berth::store {

/// A record is a tag of a repository that no registry can have; find_tag, digest_of and put_tag take it like any other.
struct FileRecord {
    plan::Reference reference;  ///< named by the file's device, inode, size and times, and by what was selected in it
    int64_t changed = 0;        ///< seconds since 1970 of its last change
};

/// The record of an image of kind oci, oci_archive or docker_archive, as the file is now; of a layout its index.json
/// counts, which has the digest of all else. Throws SysError when the file cannot be looked at.
FileRecord file_record(const plan::Reference& image);

/// The record of an image that is known by a digest outside of registries, such as an Id of docker. `id` has
/// hexadecimal digits only.
plan::Reference id_record(const std::string& id);

}  // namespace berth::store
