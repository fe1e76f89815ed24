#include "runtime/squash/format/sif_text.hh"

#include <time.h>

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

using namespace sif;

constexpr std::string_view rule = "------------------------------------------------------------------------------\n";

std::string padded(std::string text, size_t width) {
    if (text.size() < width) text.resize(width, ' ');
    return text;
}

std::string upper(std::string text) {
    for (char& c : text)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return text;
}

/// Of a table that numbers from 1 on; "Unknown" for another number.
template <size_t count>
std::string name_of(const char* const (&names)[count], int32_t number) {
    return number >= 1 && static_cast<size_t>(number) <= count ? names[number - 1] : "Unknown";
}

std::string file_system_word(int32_t number) {
    static constexpr const char* names[] = {"Squashfs",          "Ext3", "Archive", "Raw", "Encrypted squashfs",
                                            "Gocryptfs squashfs"};
    return name_of(names, number);
}

std::string role_word(int32_t number) {
    static constexpr const char* names[] = {"System", "*System", "Data", "Overlay"};
    return name_of(names, number);
}

std::string hash_word(int32_t number) {
    static constexpr const char* names[] = {"SHA-256", "SHA-384", "SHA-512", "BLAKE2s-256", "BLAKE2b-256"};
    return name_of(names, number);
}

std::string machine_word(const char (&code)[3]) {
    static constexpr const char* names[] = {"386",    "amd64",  "arm",      "arm64", "ppc64",   "ppc64le", "mips",
                                            "mipsle", "mips64", "mips64le", "s390x", "riscv64", "loong64"};
    bool is_number = code[0] >= '0' && code[0] <= '9' && code[1] >= '0' && code[1] <= '9';
    int number = is_number ? (code[0] - '0') * 10 + code[1] - '0' : 0;
    return number >= 1 && number <= 13 ? names[number - 1] : "unknown";
}

/// As Go prints a time.
std::string time_text(int64_t seconds) {
    auto when = static_cast<time_t>(seconds);
    tm parts{};
    char text[64] = {};
    if (::gmtime_r(&when, &parts) != nullptr) ::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S +0000 UTC", &parts);
    return text;
}

std::string text_of(const char* field, size_t size) {
    return printable(std::string_view(field, static_cast<size_t>(std::find(field, field + size, '\0') - field)), size);
}

std::string first_line(const char* field, size_t size) {
    return text_of(field, static_cast<size_t>(std::find(field, field + size, '\n') - field));
}

std::string described(const Descriptor& object) {
    std::string type = type_name(object.type);
    if (object.type == type_partition)
        return cat(type, " (", file_system_word(object.file_system), "/", role_word(object.role), "/",
                   machine_word(object.architecture), ")");
    return object.type == type_signature ? cat(type, " (", hash_word(object.hash), ")") : type;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string table(const Fields& fields, std::string_view before) {
    size_t width = 0;
    for (const auto& [name, value] : fields) width = std::max(width, name.size() + 2);
    std::string out;
    for (const auto& [name, value] : fields) out += cat(before, padded(name + ":", width), value, "\n");
    return out;
}

}  // namespace

std::string type_name(int32_t type) {
    static constexpr const char* names[] = {"Def.FILE",  "Env.Vars",      "JSON.Labels", "FS",
                                            "Signature", "JSON.Generic",  "Generic/Raw", "Cryptographic Message",
                                            "SBOM",      "OCI.RootIndex", "OCI.Blob"};
    return name_of(names, type - type_definition + 1);
}

std::string group_text(uint32_t group) {
    uint32_t number = group & ~group_mark;
    return number == 0 ? "NONE" : cat(number);
}

std::string link_text(uint32_t link) {
    uint32_t number = link & ~group_mark;
    if (number == 0) return "NONE";
    return cat(number, (link & group_mark) == group_mark ? " (G)" : "");
}

std::string sif_header_text(const Header& header) {
    std::string id = hex_text({reinterpret_cast<const unsigned char*>(header.id), sizeof header.id});
    for (size_t at : {20, 16, 12, 8}) id.insert(at, "-");
    Fields fields;
    fields.emplace_back("Launch Script", first_line(header.launch, sizeof header.launch));
    fields.emplace_back("Version", text_of(header.version, sizeof header.version));
    if (std::string machine = machine_word(header.architecture); machine != "unknown")
        fields.emplace_back("Primary Architecture", machine);
    if (id.find_first_not_of("0-") != id.npos) fields.emplace_back("ID", id);
    fields.emplace_back("Created At", time_text(header.created));
    fields.emplace_back("Modified At", time_text(header.modified));
    fields.emplace_back("Descriptors Free", cat(int64_t{header.free}));
    fields.emplace_back("Descriptors Total", cat(int64_t{header.total}));
    fields.emplace_back("Descriptors Offset", cat(int64_t{header.descriptors_offset}));
    fields.emplace_back("Descriptors Size", human_bytes(static_cast<uint64_t>(header.descriptors_size)));
    fields.emplace_back("Data Offset", cat(int64_t{header.data_offset}));
    fields.emplace_back("Data Size", human_bytes(static_cast<uint64_t>(header.data_size)));
    return table(fields, "");
}

std::string sif_list_text(const std::vector<Descriptor>& objects) {
    std::string out = cat(rule, padded("ID", 5), padded("|GROUP", 9), padded("|LINK", 9),
                          padded("|SIF POSITION (start-end)", 27), "|TYPE\n", rule);
    for (const Descriptor& one : objects)
        out += cat(padded(cat(uint32_t{one.id}), 5), padded("|" + group_text(one.group), 9),
                   padded("|" + link_text(one.link), 9),
                   padded(cat("|", int64_t{one.offset}, "-", one.offset + one.size), 27), "|", described(one), "\n");
    return out;
}

std::string sif_object_text(const Descriptor& object) {
    Fields fields{{"Data Type", type_name(object.type)},     {"ID", cat(uint32_t{object.id})},
                  {"Group ID", group_text(object.group)},    {"Linked ID", link_text(object.link)},
                  {"Offset", cat(int64_t{object.offset})},   {"Size", cat(int64_t{object.size})},
                  {"Created At", time_text(object.created)}, {"Modified At", time_text(object.modified)}};
    if (std::string name = text_of(object.name, sizeof object.name); !name.empty()) fields.emplace_back("Name", name);
    if (object.type == type_partition) {
        fields.emplace_back("Filesystem Type", file_system_word(object.file_system));
        fields.emplace_back("Partition Type", role_word(object.role));
        fields.emplace_back("Architecture", machine_word(object.architecture));
    }
    if (object.type == type_signature) {
        fields.emplace_back("Hash Type", hash_word(object.hash));
        fields.emplace_back("Entity", upper(hex_text(object.fingerprint)));
    }
    return table(fields, "  ");
}

}  // namespace berth::squash
