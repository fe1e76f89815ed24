#include "hooks/elf.hh"

#include <algorithm>
#include <cstring>

#include "runtime/base/record.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

/// Libraries that export a few hundred functions have some 100 KB of each; others export all of C++ that they use.
constexpr size_t section_limit = 256, table_limit = 1 << 20, symbols_limit = 8 << 20, texts_limit = 16 << 20;
constexpr size_t name_limit = 1024;

/// The text at `offset` of a table; empty for one that does not end in it, or is too long.
std::string_view text_at(std::string_view texts, size_t offset) {
    if (offset >= texts.size()) return {};
    std::string_view text = texts.substr(offset, name_limit);
    size_t end = text.find('\0');
    return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

void read_dynamic(SharedObject& out, const ElfSections& file, const Elf64_Shdr& section) {
    std::string table = file.content(section, table_limit), texts = file.texts_of(section);
    for (size_t at = 0; auto entry = record_at<Elf64_Dyn>(table, at); at += sizeof(Elf64_Dyn)) {
        if (entry->d_tag == DT_NULL) return;
        std::string text(text_at(texts, entry->d_un.d_val));
        if (text.empty()) continue;
        if (entry->d_tag == DT_SONAME) out.soname = text;
        if (entry->d_tag == DT_NEEDED) out.needed.push_back(text);
        if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH)
            for (const std::string& folder : split(text, ':')) out.run_path.push_back(folder);
    }
}

/// A chain of records, each of which says how far it is to the next one. Those of an honest file do not overlap.
template <typename Record>
bool ends_with(uint32_t next) {
    return next < sizeof(Record);
}

void read_defined_versions(SharedObject& out, const ElfSections& file, const Elf64_Shdr& section) {
    std::string table = file.content(section, table_limit), texts = file.texts_of(section);
    size_t at = 0;
    while (auto version = record_at<Elf64_Verdef>(table, at)) {
        auto name = record_at<Elf64_Verdaux>(table, at + version->vd_aux);
        // The base version is the SONAME.
        if (name && !(version->vd_flags & VER_FLG_BASE)) out.versions.emplace(text_at(texts, name->vda_name));
        if (ends_with<Elf64_Verdef>(version->vd_next)) return;
        at += version->vd_next;
    }
}

void read_wanted_versions(SharedObject& out, const ElfSections& file, const Elf64_Shdr& section) {
    std::string table = file.content(section, table_limit), texts = file.texts_of(section);
    // Lists of different libraries may overlap: all together are no longer than the table.
    size_t left = table.size() / sizeof(Elf64_Vernaux);
    size_t at = 0;
    while (auto library = record_at<Elf64_Verneed>(table, at)) {
        std::set<std::string>& wanted = out.wanted[std::string(text_at(texts, library->vn_file))];
        size_t one = at + library->vn_aux;
        for (unsigned i = 0; i < library->vn_cnt && left > 0; ++i, --left) {
            auto version = record_at<Elf64_Vernaux>(table, one);
            if (!version) break;
            // A weak one is no condition.
            if (!(version->vna_flags & VER_FLG_WEAK)) wanted.emplace(text_at(texts, version->vna_name));
            one += version->vna_next;
        }
        if (ends_with<Elf64_Verneed>(library->vn_next)) return;
        at += library->vn_next;
    }
}

}  // namespace

ElfSections::ElfSections(ReadPart read) : read_(std::move(read)) {
    auto header = record_at<Elf64_Ehdr>(read_(0, sizeof(Elf64_Ehdr)), 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > section_limit ||
        header->e_shstrndx >= header->e_shnum)
        return;
    std::string table = read_(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr));
    if (table.size() != header->e_shnum * sizeof(Elf64_Shdr)) return;
    machine_ = header->e_machine;
    sections_.resize(header->e_shnum);
    std::memcpy(sections_.data(), table.data(), table.size());
    names_ = content(sections_[header->e_shstrndx], 64 << 10);
}

const Elf64_Shdr* ElfSections::of_type(uint32_t type) const {
    auto found = std::ranges::find(sections_, type, &Elf64_Shdr::sh_type);
    return found == sections_.end() ? nullptr : &*found;
}

const Elf64_Shdr* ElfSections::named(std::string_view name) const {
    auto found = std::ranges::find_if(
        sections_, [&](const Elf64_Shdr& section) { return text_at(names_, section.sh_name) == name; });
    return found == sections_.end() ? nullptr : &*found;
}

std::string ElfSections::content(const Elf64_Shdr& section, size_t limit) const {
    if (section.sh_type == SHT_NOBITS) return {};
    return read_(section.sh_offset, std::min<uint64_t>(section.sh_size, limit));
}

std::string ElfSections::texts_of(const Elf64_Shdr& section) const {
    return section.sh_link < sections_.size() ? content(sections_[section.sh_link], texts_limit) : std::string();
}

std::optional<SharedObject> read_shared_object(const ReadPart& read) {
    ElfSections file(read);
    const Elf64_Shdr* dynamic = file ? file.of_type(SHT_DYNAMIC) : nullptr;
    if (!dynamic) return std::nullopt;
    SharedObject out;
    out.machine = file.machine();
    read_dynamic(out, file, *dynamic);
    if (const Elf64_Shdr* section = file.of_type(SHT_GNU_verdef)) read_defined_versions(out, file, *section);
    if (const Elf64_Shdr* section = file.of_type(SHT_GNU_verneed)) read_wanted_versions(out, file, *section);
    return out;
}

std::optional<LibraryName> read_library_name(const ReadPart& read) {
    std::string ident = read(0, EI_NIDENT);
    if (ident.size() != EI_NIDENT || std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (ident[EI_CLASS] == ELFCLASS32) return LibraryName{.soname = {}, .narrow = true};
    ElfSections file(read);
    const Elf64_Shdr* dynamic = file ? file.of_type(SHT_DYNAMIC) : nullptr;
    SharedObject out;
    if (dynamic) read_dynamic(out, file, *dynamic);
    // A path would lead out of the folder.
    if (out.soname.find('/') != std::string::npos) out.soname.clear();
    return LibraryName{.soname = out.soname};
}

std::set<std::string> defined_symbols(const ReadPart& read, bool (*counts)(std::string_view name)) {
    std::set<std::string> out;
    ElfSections file(read);
    const Elf64_Shdr* section = file ? file.of_type(SHT_DYNSYM) : nullptr;
    if (!section) return out;
    std::string table = file.content(*section, symbols_limit), texts = file.texts_of(*section);
    for (size_t at = 0; auto symbol = record_at<Elf64_Sym>(table, at); at += sizeof(Elf64_Sym)) {
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
        if (std::string_view name = text_at(texts, symbol->st_name); counts(name)) out.emplace(name);
    }
    return out;
}

}  // namespace berth::hooks
