#include "runtime/mount/fuse/guess.hh"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/mount/fuse/elf_loads.hh"

namespace berth::mount {

namespace {

constexpr const char* byte_code = "__pycache__";
constexpr std::string_view byte_code_ending = ".pyc";
/// Of files that are read because others beside them are: how large, and how many of a directory.
constexpr uint64_t alike_size = 256 << 10;
constexpr uint32_t alike_count = 512;
/// Libraries up to this size are read whole.
constexpr uint64_t whole_library = 1 << 20;
/// Of a larger one, around a read: twice what the kernel reads of a user's mount at a time.
constexpr uint64_t window_size = 256 << 10;
constexpr size_t most_folders = 16, most_missing = 64, most_needed = 4096;
constexpr int most_links = 4;

std::string_view ending(std::string_view name) {
    size_t dot = name.rfind('.');
    return dot == name.npos || dot == 0 ? std::string_view() : name.substr(dot);
}

bool is_library(std::string_view name) {
    return name.ends_with(".so") || name.find(".so.") != name.npos;
}

}  // namespace

void Guess::saw_read(uint32_t inode, uint64_t offset) {
    if (seen_.insert(inode).second) saw_first_read(inode);
    uint64_t window = offset / window_size * window_size;
    if (large_libraries_.contains(inode) && windows_.emplace(inode, window).second)
        tasks_.push_front({Task::Kind::window, inode, window});
}

void Guess::saw_missing(uint32_t directory, std::string_view name) {
    if (byte_code_of(directory) == 0) return;
    if (missing_.size() < most_missing) ++missing_[std::string(name)];
    // Python looks for these names first.
    if (packages_.insert(directory).second) tasks_.push_front({Task::Kind::package, directory});
}

void Guess::saw_first_read(uint32_t inode) {
    squash::ListPlaces::Place place = places_.place_of(inode);
    std::string name = places_.name_at(place);
    std::string same(ending(name));
    bool library = is_library(name);
    // Of those beside each other, programs load few, but for modules of a package.
    bool alone = same.empty() || (library && byte_code_of(place.directory) == 0);
    uint32_t enough = library || same == byte_code_ending ? 1 : 2;
    if (!alone && ++alike_[{place.directory, same}] == enough) tasks_.push_front({Task::Kind::alike, inode});
    if (!library) return;
    bool is_new = std::ranges::find(library_folders_, place.directory) == library_folders_.end();
    if (is_new && library_folders_.size() < most_folders) library_folders_.push_back(place.directory);
    tasks_.push_front({Task::Kind::library, inode});
}

bool Guess::step() {
    if (tasks_.empty()) return false;
    Task task = tasks_.front();
    tasks_.pop_front();
    switch (task.kind) {
        case Task::Kind::alike:
            read_alike(task.inode);
            break;
        case Task::Kind::package:
            read_package(task.inode);
            break;
        case Task::Kind::library:
            read_library(task.inode);
            break;
        case Task::Kind::window:
            means_.read(task.inode, task.offset, window_size);
            break;
    }
    return true;
}

uint32_t Guess::byte_code_of(uint32_t directory) const {
    return index_.lookup(directory, byte_code);
}

void Guess::read_alike(uint32_t inode) {
    squash::ListPlaces::Place place = places_.place_of(inode);
    std::string name = places_.name_at(place);
    uint32_t above = index_.parent(place.directory);
    bool is_package = byte_code_of(above) == place.directory;
    if (is_package) means_.list(above);
    means_.list(place.directory);
    uint32_t count = std::min(index_.entry_count(place.directory), alike_count);
    for (uint32_t position = 0; position < count; ++position) {
        auto entry = index_.entry(place.directory, position);
        if (!entry || !S_ISREG(entry->mode) || ending(entry->name) != ending(name)) continue;
        auto view = index_.inode(entry->inode);
        if (view && view->size <= alike_size) means_.read(entry->inode, 0, view->size);
    }
    if (is_package) want_packages_in(above);
}

void Guess::want_packages_in(uint32_t directory) {
    uint32_t count = std::min(index_.entry_count(directory), alike_count);
    for (uint32_t position = 0; position < count; ++position) {
        auto entry = index_.entry(directory, position);
        if (entry && S_ISDIR(entry->mode) && byte_code_of(entry->inode) != 0 && packages_.insert(entry->inode).second)
            tasks_.push_back({Task::Kind::package, entry->inode});
    }
}

void Guess::read_package(uint32_t directory) {
    uint32_t code = byte_code_of(directory);
    means_.list(directory);
    means_.list(code);
    for (const auto& [name, packages] : missing_)
        if (packages > 1 && index_.lookup(directory, name) == 0) means_.look_up(directory, name);
    uint32_t count = std::min(index_.entry_count(code), alike_count);
    for (uint32_t position = 0; position < count; ++position) {
        auto entry = index_.entry(code, position);
        if (entry && S_ISREG(entry->mode) && entry->name.starts_with("__init__."))
            means_.read(entry->inode, 0, alike_size);
    }
}

void Guess::read_library(uint32_t inode) {
    auto view = index_.inode(inode);
    if (!view) return;
    bool whole = view->size <= whole_library;
    if (whole) means_.read(inode, 0, view->size);
    ElfLoads loads = elf_loads([&](uint64_t offset, size_t size) { return means_.content(inode, offset, size); });
    if (!whole) {
        large_libraries_.insert(inode);
        for (const ElfPart& part : loads.parts) means_.read(inode, part.offset, part.size);
    }
    for (const std::string& name : loads.needed) find_library(places_.place_of(inode).directory, name);
}

void Guess::find_library(uint32_t beside, const std::string& name) {
    if (needed_.size() >= most_needed || !needed_.insert(name).second || has_library(beside, name)) return;
    for (uint32_t folder : library_folders_)
        if (has_library(folder, name)) return;
}

bool Guess::has_library(uint32_t directory, const std::string& name) {
    uint32_t inode = index_.lookup(directory, name);
    if (inode == 0) return false;
    means_.look_up(directory, name);
    for (int links = 0; links < most_links; ++links) {
        auto target = index_.symlink_target(inode);
        if (!target) break;
        std::string next(*target);
        inode = next.find('/') == next.npos ? index_.lookup(directory, next) : 0;
        if (inode == 0) return true;
        means_.look_up(directory, next);
    }
    if (places_.place_of(inode).directory != 0 && seen_.insert(inode).second)
        tasks_.push_back({Task::Kind::library, inode});
    return true;
}

}  // namespace berth::mount
