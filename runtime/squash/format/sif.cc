#include "runtime/squash/format/sif.hh"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/sif_format.hh"

namespace berth::squash {

namespace {

using namespace sif;

constexpr int64_t descriptor_limit = 4096;
constexpr size_t overlay_limit = 16;

std::string file_system_name(int32_t number) {
    constexpr const char* names[] = {"squashfs", "ext3", "an archive", "raw data", "encrypted squashfs"};
    return number >= 1 && number <= 5 ? names[number - 1] : cat("of unknown kind ", number);
}

/// The file with its size; every error names it.
struct Sif {
    int fd;
    std::string what;
    int64_t size;

    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(cat("reading the SIF file ", printable(what, 4096), ": ", why));
    }
    void read(std::span<char> out, int64_t offset) const {
        if (offset < 0 || offset > size || static_cast<int64_t>(out.size()) > size - offset)
            refuse("it is cut off; fetch or make it again");
        if (!sys::pread_exact(fd, out, static_cast<uint64_t>(offset), printable(what, 4096)))
            refuse("it became shorter while it was read");
    }
    SifObjects objects() const;
    std::vector<Descriptor> partitions(const SifObjects& objects) const;
    Descriptor system(const std::vector<Descriptor>& partitions) const;
    std::vector<Descriptor> overlays(const std::vector<Descriptor>& partitions) const;
    Extent place_of(const Descriptor& object, const std::string& called) const;
};

SifObjects Sif::objects() const {
    SifObjects out;
    Header& header = out.header;
    read(sys::bytes_of(header), 0);
    if (std::memcmp(header.magic, sif_magic, sizeof sif_magic) != 0) refuse("it is no SIF file");
    if (std::string_view(header.version, 2) != "01")
        refuse(cat("its version is ", printable(std::string_view(header.version, 2)), ", only 01 is supported"));
    if (header.total < 0 || header.total > descriptor_limit)
        refuse(cat("it has ", header.total, " descriptors, more than the limit of ", descriptor_limit));
    out.used.resize(static_cast<size_t>(header.total));
    read(sys::bytes_of(std::span(out.used)), header.descriptors_offset);
    std::erase_if(out.used, [](const Descriptor& one) { return one.used == 0; });
    return out;
}

/// Throws for a file that has an image in another form.
std::vector<Descriptor> Sif::partitions(const SifObjects& objects) const {
    std::vector<Descriptor> out = objects.used;
    bool has_oci = std::erase_if(out, [](const Descriptor& one) {
        return one.type == type_oci_index || one.type == type_oci_blob;
    }) > 0;
    std::erase_if(out, [](const Descriptor& one) { return one.type != type_partition; });
    bool has_system = std::ranges::any_of(out, [](const Descriptor& one) { return one.role == role_primary; });
    if (!has_system && has_oci)
        refuse("it is an OCI-SIF, which has an image layout in place of a system partition; name the image in its "
               "registry, or write it anew with singularity push and pull");
    return out;
}

Descriptor Sif::system(const std::vector<Descriptor>& partitions) const {
    auto primary =
        std::ranges::find_if(partitions, [](const Descriptor& one) { return one.role == role_primary; });
    if (primary == partitions.end()) {
        std::string others;
        for (const Descriptor& one : partitions)
            others += cat(others.empty() ? "" : ", ", file_system_name(one.file_system));
        refuse(cat("it has no system partition", others.empty() ? "" : cat(", only: ", others)));
    }
    if (primary->file_system != file_system_squashfs)
        refuse(cat("its system partition is ", file_system_name(primary->file_system),
                   ", not squashfs; make it again as a plain image with apptainer build"));
    return *primary;
}

std::vector<Descriptor> Sif::overlays(const std::vector<Descriptor>& partitions) const {
    uint32_t group = system(partitions).group & ~group_mark;
    std::vector<Descriptor> out;
    for (const Descriptor& one : partitions) {
        if (one.role != role_overlay || (group != 0 && group != (one.group & ~group_mark))) continue;
        // A member of it is at no place for a reference.
        int32_t file_system = one.file_system;
        if (file_system != file_system_squashfs)
            refuse(cat("it has an overlay partition (", file_system_name(file_system),
                       "), whose files apptainer shows over those of the image and Berth cannot read; make one image "
                       "of both with apptainer build --sandbox and name the directory"));
        if (out.size() == overlay_limit)
            refuse(cat("it has more than ", overlay_limit, " overlay partitions, the limit"));
        out.push_back(one);
    }
    return out;
}

Extent Sif::place_of(const Descriptor& object, const std::string& called) const {
    if (object.offset < static_cast<int64_t>(sizeof(Header)) || object.size <= 0 || object.offset > size ||
        object.size > size - object.offset)
        refuse(cat("its ", called, " is not within the file; fetch or make it again"));
    return {static_cast<uint64_t>(object.offset), static_cast<uint64_t>(object.size)};
}

Sif sif_file(int fd, const std::string& what) { return {fd, what, sys::stat_of(fd, printable(what, 4096)).st_size}; }

}  // namespace

bool is_sif(int fd) {
    char start[sizeof sif_magic] = {};
    return ::pread(fd, start, sizeof start, offsetof(Header, magic)) == sizeof start &&
           std::memcmp(start, sif_magic, sizeof start) == 0;
}

Extent find_sif_partition(int fd, const std::string& what) {
    Sif file = sif_file(fd, what);
    return file.place_of(file.system(file.partitions(file.objects())), "system partition");
}

std::vector<Extent> find_sif_overlays(int fd, const std::string& what) {
    Sif file = sif_file(fd, what);
    std::vector<Extent> out;
    for (const Descriptor& one : file.overlays(file.partitions(file.objects())))
        out.push_back(file.place_of(one, "overlay partition"));
    return out;
}

std::vector<Descriptor> sif_image_parts(const SifObjects& objects, const std::string& what) {
    Sif file{-1, what, 0};
    std::vector<Descriptor> partitions = file.partitions(objects), out{file.system(partitions)};
    for (const Descriptor& one : file.overlays(partitions)) out.push_back(one);
    return out;
}

SifObjects read_sif(int fd, const std::string& what) {
    Sif file = sif_file(fd, what);
    SifObjects out = file.objects();
    for (const Descriptor& one : out.used)
        if (one.size != 0) file.place_of(one, cat("object ", uint32_t{one.id}));
    return out;
}

}  // namespace berth::squash
