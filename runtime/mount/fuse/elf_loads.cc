#include "runtime/mount/fuse/elf_loads.hh"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/base/record.hh"

namespace berth::mount {

namespace {

constexpr size_t elf_head_size = 4096, most_headers = 64, dynamic_limit = 64 << 10, most_needed_names = 256;
constexpr size_t library_name_limit = 256;

class Loads {
  public:
    explicit Loads(const ReadPart& read) : read_(read) {}

    ElfLoads take() {
        read_headers();
        read_dynamic();
        for (const Elf64_Phdr& load : loads_) add(load);
        return std::move(out_);
    }

  private:
    void read_headers() {
        std::string head = read_(0, elf_head_size);
        auto header = record_at<Elf64_Ehdr>(head, 0);
        if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
            header->e_phentsize != sizeof(Elf64_Phdr))
            return;
        size_t count = std::min<size_t>(header->e_phnum, most_headers);
        uint64_t at = header->e_phoff;
        if (at > head.size() || head.size() - at < count * sizeof(Elf64_Phdr))
            head = read_(at, count * sizeof(Elf64_Phdr)), at = 0;
        for (size_t i = 0; i < count; ++i) {
            auto part = record_at<Elf64_Phdr>(head, at + i * sizeof(Elf64_Phdr));
            if (part && part->p_type == PT_LOAD) loads_.push_back(*part);
            if (part && part->p_type == PT_DYNAMIC) dynamic_ = *part;
        }
    }

    void read_dynamic() {
        if (!dynamic_) return;
        std::string table = read_(dynamic_->p_offset, std::min<uint64_t>(dynamic_->p_filesz, dynamic_limit));
        std::vector<uint64_t> names;
        for (uint64_t at = 0; auto entry = record_at<Elf64_Dyn>(table, at); at += sizeof(Elf64_Dyn)) {
            if (entry->d_tag == DT_NULL) break;
            if (entry->d_tag == DT_NEEDED && names.size() < most_needed_names) names.push_back(entry->d_un.d_val);
            if (entry->d_tag != DT_NEEDED) values_[entry->d_tag] = entry->d_un.d_val;
        }
        for (uint64_t name : names) add_needed(name);
    }

    void add_needed(uint64_t at) {
        auto place = place_of(values_[DT_STRTAB]);
        if (!place || at >= values_[DT_STRSZ] || at > UINT64_MAX / 2 - *place) return;
        std::string name = read_(*place + at, library_name_limit);
        name.resize(std::min(name.size(), name.find('\0')));
        if (!name.empty() && name.size() < library_name_limit && name.find('/') == name.npos)
            out_.needed.push_back(name);
    }

    /// In the file.
    std::optional<uint64_t> place_of(uint64_t address) const {
        for (const Elf64_Phdr& load : loads_)
            if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz && load.p_offset <= UINT64_MAX / 2 &&
                load.p_filesz <= UINT64_MAX / 4)
                return load.p_offset + (address - load.p_vaddr);
        return std::nullopt;
    }

    /// All that can be changed, and of the rest the tables of the loader, which stand before the program.
    void add(const Elf64_Phdr& load) {
        uint64_t size = (load.p_flags & PF_W) != 0 ? load.p_filesz : 0;
        for (auto [start, length] :
             {std::pair<int64_t, int64_t>{DT_STRTAB, DT_STRSZ}, {DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}}) {
            uint64_t from = values_[start] - load.p_vaddr;
            if (values_[start] < load.p_vaddr || from >= load.p_filesz) continue;
            size = std::max(size, from + std::min(values_[length], load.p_filesz - from));
        }
        if (size != 0) out_.parts.push_back({load.p_offset, size});
    }

    const ReadPart& read_;
    std::vector<Elf64_Phdr> loads_;
    std::optional<Elf64_Phdr> dynamic_;
    std::map<int64_t, uint64_t> values_;
    ElfLoads out_;
};

}  // namespace

ElfLoads elf_loads(const ReadPart& read) {
    return Loads(read).take();
}

}  // namespace berth::mount
