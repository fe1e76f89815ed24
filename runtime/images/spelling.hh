// Guesses at what a user meant: which prefix a file wants that was written without it.
#pragma once
#include <string>

namespace berth {

/// What an open file is, by a look into it: "oci-archive", "docker-archive", "packed" (an archive that is compressed),
/// "tar" (of something else), or empty for no archive.
std::string archive_kind(int fd);

/// How an archive of that kind is written: "docker-archive:PATH".
std::string archive_spelling(const std::string& kind, const std::string& path);

/// Throws Error with the right spelling when `text`, which reads as the name of a registry's image, is the name of an
/// image file in the directory `cwd`.
void check_is_no_file(const std::string& text, const std::string& cwd);

}  // namespace berth
