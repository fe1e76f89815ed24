#include "runtime/squash/format/sif_write.hh"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/sif_format.hh"

namespace berth::squash {

namespace {

using namespace sif;

// As all files of Apptainer have it.
constexpr int64_t descriptors_offset = 4096, descriptor_count = 48;
constexpr int64_t data_offset = descriptors_offset + descriptor_count * int64_t{sizeof(Descriptor)};
constexpr int64_t partition_alignment = 4096;
constexpr uint32_t first_group = group_mark | 1;

std::array<char, 3> architecture_code(const std::string& name) {
    constexpr std::pair<std::string_view, const char*> codes[] = {
        {"386", "01"},     {"amd64", "02"},   {"arm", "03"},    {"arm64", "04"},  {"ppc64", "05"},
        {"ppc64le", "06"}, {"mips", "07"},    {"mipsle", "08"}, {"mips64", "09"}, {"mips64le", "10"},
        {"s390x", "11"},   {"riscv64", "12"}, {"loong64", "13"}};
    auto found = std::ranges::find_if(codes, [&](const auto& code) { return code.first == name; });
    const char* digits = found == std::end(codes) ? "00" : found->second;
    return {digits[0], digits[1], '\0'};
}

template <size_t size>
void put(char (&field)[size], std::string_view text) {
    std::memcpy(field, text.data(), std::min(size, text.size()));
}

/// Fills in the descriptors, one after the other.
class Objects {
  public:
    explicit Objects(int64_t time) : time_(time) {}

    Descriptor& add(int32_t type, std::string_view name, int64_t size, int64_t alignment = 1) {
        int64_t offset = (end_ + alignment - 1) / alignment * alignment;
        Descriptor out{};
        out.type = type;
        out.used = 1;
        out.id = static_cast<uint32_t>(all_.size() + 1);
        out.group = first_group;
        out.offset = offset;
        out.size = size;
        out.stored_size = offset - end_ + size;
        out.created = out.modified = time_;
        put(out.name, name);
        end_ = offset + size;
        return all_.emplace_back(out);
    }
    const std::vector<Descriptor>& all() const { return all_; }
    int64_t end() const { return end_; }

  private:
    int64_t time_;
    int64_t end_ = data_offset;
    std::vector<Descriptor> all_;
};

Objects objects_of(const SifForm& form, int64_t partition_size) {
    Objects out(form.time);
    out.add(type_definition, "", static_cast<int64_t>(form.definition.size()));
    for (const SifText& text : form.texts) out.add(type_json, text.name, static_cast<int64_t>(text.content.size()));
    Descriptor& partition = out.add(type_partition, "", partition_size, partition_alignment);
    partition.file_system = file_system_squashfs;
    partition.role = role_primary;
    auto code = architecture_code(form.architecture);
    put(partition.architecture, {code.data(), code.size()});
    return out;
}

}  // namespace

uint64_t sif_partition_start(const SifForm& form) {
    return static_cast<uint64_t>(objects_of(form, 0).all().back().offset);
}

void write_sif(int fd, const SifForm& form, const std::string& what) {
    int64_t start = static_cast<int64_t>(sif_partition_start(form));
    if (form.texts.size() + 2 > descriptor_count) throw std::logic_error("more objects than a SIF file has room for");
    Objects objects = objects_of(form, sys::stat_of(fd, what).st_size - start);
    Header header{};
    put(header.launch, "#!/usr/bin/env run-singularity\n");
    put(header.magic, sif_magic);
    put(header.version, "01");
    auto code = architecture_code(form.architecture);
    put(header.architecture, {code.data(), code.size()});
    put(header.id, {form.id.data(), form.id.size()});
    header.created = header.modified = form.time;
    header.total = descriptor_count;
    header.free = descriptor_count - static_cast<int64_t>(objects.all().size());
    header.descriptors_offset = descriptors_offset;
    header.descriptors_size = data_offset - descriptors_offset;
    header.data_offset = data_offset;
    header.data_size = objects.end() - data_offset;

    std::string head(static_cast<size_t>(data_offset), '\0');
    std::memcpy(head.data(), &header, sizeof header);
    std::memcpy(head.data() + descriptors_offset, objects.all().data(), objects.all().size() * sizeof(Descriptor));
    head += form.definition;
    for (const SifText& text : form.texts) head += text.content;
    if (::lseek(fd, 0, SEEK_SET) < 0) throw SysError(cat("writing ", what));
    sys::write_all(fd, head, what);
}

}  // namespace berth::squash
