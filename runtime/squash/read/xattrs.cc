#include "runtime/squash/read/xattrs.hh"

namespace berth::squash {

namespace {

constexpr uint32_t no_xattrs = ~0U;
constexpr uint16_t type_mask = 0xFF;
constexpr uint16_t type_user = 0;
constexpr uint16_t flag_out_of_line = 0x100;
// The kernel's own limits: XATTR_NAME_MAX and XATTR_SIZE_MAX.
constexpr uint32_t xattr_name_limit = 255;
constexpr uint32_t value_limit = 65536;
constexpr uint64_t pair_overhead = 64;

}  // namespace

XattrTable::XattrTable(Metadata& metadata, uint64_t table) : metadata_(metadata) {
    if (table == 0) return;
    struct {
        uint64_t values;
        uint32_t count;
        uint32_t unused;
    } header{};
    metadata.file().read(sys::bytes_of(header), table);
    if (header.values > metadata.file().size) metadata.file().damaged("its xattr table is outside the file");
    values_ = header.values;
    records_ = metadata.table<Record>(table + sizeof header, header.count);
    sets_.assign(records_.size(), Node::none);
}

uint32_t XattrTable::set(uint32_t id, TreeData& tree) {
    if (id == no_xattrs) return 0;
    if (id >= records_.size()) metadata_.file().damaged("an inode has xattrs that are not in the table");
    if (sets_[id] != Node::none) return sets_[id];
    XattrSet read = read_set(records_[id]);
    sets_[id] = 0;
    if (!read.empty()) {
        sets_[id] = static_cast<uint32_t>(tree.xattr_sets.size());
        tree.xattr_sets.push_back(std::move(read));
    }
    return sets_[id];
}

XattrSet XattrTable::read_set(const Record& record) {
    XattrSet out;
    Cursor cursor(metadata_, values_, record.reference);
    for (uint32_t i = 0; i < record.count; ++i) {
        metadata_.budget().charge(pair_overhead);
        auto type = cursor.take<uint16_t>();
        auto name_size = cursor.take<uint16_t>();
        if (name_size == 0 || name_size > xattr_name_limit)
            metadata_.file().damaged("the name of an xattr has a wrong length");
        std::string name = read_bytes(cursor, name_size);
        if (name.find('\0') != std::string::npos) metadata_.file().damaged("the name of an xattr has a NUL");
        std::string value = read_value(cursor, type & flag_out_of_line);
        if ((type & type_mask) == type_user) out.emplace_back("user." + name, std::move(value));
    }
    return out;
}

std::string XattrTable::read_value(Cursor& cursor, bool out_of_line) {
    auto size = cursor.take<uint32_t>();
    if (!out_of_line) return read_bytes(cursor, size);
    if (size != sizeof(uint64_t)) metadata_.file().damaged("a shared xattr value has a wrong reference");
    Cursor elsewhere(metadata_, values_, cursor.take<uint64_t>());
    return read_bytes(elsewhere, elsewhere.take<uint32_t>());
}

std::string XattrTable::read_bytes(Cursor& cursor, uint32_t size) {
    if (size > value_limit) metadata_.file().damaged("the value of an xattr is too long");
    metadata_.budget().charge(size);
    std::string out(size, '\0');
    cursor.read(out);
    return out;
}

}  // namespace berth::squash
