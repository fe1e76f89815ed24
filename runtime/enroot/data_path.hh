// ENROOT_DATA_PATH as a scope: its text chooses which names of containers are seen. Nothing looks at that folder. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::enroot {

/// What is noted of the ENROOT_DATA_PATH with which a container was made.
struct DataPath {
    std::string text;                ///< absolute; empty: there was none
    uint32_t job = 0;                ///< whose path it is: the container goes with that job. 0: no job's
    std::vector<std::string> signs;  ///< paths, one of which at least is there until the job has ended on this node
    bool operator==(const DataPath&) const = default;
};

/// `text` as an absolute path in its shortest form, whatever is there; empty stays empty.
std::string absolute_data_path(const std::string& text, const std::string& directory);

/// The scope (see ContainerFolder) of what the program enroot makes with that path, and of what steps make where names
/// are shared by it: a word and 16 hexadecimal digits. `path` is absolute.
std::string scope_of_path(const std::string& path);
std::string scope_of_path_in_steps(const std::string& path);

/// Whether a scope is one of these.
bool is_scope_of_path(std::string_view scope);

/// Whether it is one of the program enroot, with a path or without.
bool is_scope_of_program(std::string_view scope);

/// The job of `environment`, where the path has its number in it and is no other job's too; else 0. `uid` is the
/// user's: a number that says something else.
uint32_t job_of_path(std::string_view path, const std::vector<std::string>& environment, uint32_t uid);

/// As a file. Keys that a later release writes are passed over.
std::string data_path_text(const DataPath& path);
DataPath parse_data_path(std::string_view text);

}  // namespace berth::enroot
