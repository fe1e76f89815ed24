#include "runtime/squash/write/writer.hh"

#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <optional>

#include "runtime/squash/write/compression.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/file_cutter.hh"
#include "runtime/squash/write/writer_file.hh"
#include "runtime/squash/write/writer_tables.hh"
#include "runtime/squash/write/writer_tree.hh"

namespace berth::squash {

namespace {

template <typename T>
SqfsPtr<T> owned(T* object) {
    if (object == nullptr) throw std::bad_alloc();
    return SqfsPtr<T>(object);
}

}  // namespace

struct LayerWriter::Impl {
    Impl(int fd, CompressorPool* shared, std::function<void(uint64_t)> on_final)
        : own(shared != nullptr ? nullptr : std::make_unique<CompressorPool>(Compression{}, PoolLimits{})),
          pool(shared != nullptr ? *shared : *own),
          file(fd),
          compressor(make_compressor(pool.compression(), pool.block_size())),
          fragments(owned(sqfs_frag_table_create(0))),
          xattrs(owned(sqfs_xattr_writer_create(0))) {
        // The modification time is zero, so that equal layers are equal files.
        file.check(sqfs_super_init(&super, pool.block_size(), 0,
                                   static_cast<SQFS_COMPRESSOR>(stored_codec(pool.compression().codec))));
        file.check(sqfs_super_write(&super, &file));
        int written = compressor->write_options(compressor.get(), &file);
        file.check(std::min(written, 0));
        if (written > 0) super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
        file.write_directly();
        file.on_final(std::move(on_final));
        cutter.emplace(file, pool);
    }

    void set(NewInode& inode, const Attributes& attributes) {
        set_attributes(inode, attributes, xattr_index(attributes));
    }

    uint32_t xattr_index(const Attributes& attributes) {
        if (attributes.xattrs.empty()) return no_xattrs;
        file.check(sqfs_xattr_writer_begin(xattrs.get(), 0));
        for (const auto& [name, value] : attributes.xattrs)
            file.check(sqfs_xattr_writer_add(xattrs.get(), name.c_str(), value.data(), value.size()),
                       "storing an extended attribute");
        sqfs_u32 index = no_xattrs;
        file.check(sqfs_xattr_writer_end(xattrs.get(), &index));
        return index;
    }

    NewInode& add(std::string_view path, const Attributes& attributes, uint32_t type) {
        NewInode& inode = add_entry(tree, path, type);
        set(inode, attributes);
        return inode;
    }

    void begin_data(NewInode& inode, uint64_t size = 0) {
        inode.file = std::make_unique<StoredFile>();
        bool may_be_program = (inode.mode & 0111) != 0 && size > 0 && size <= largest_program;
        cutter->begin(*inode.file, may_be_program);
    }

    std::unique_ptr<CompressorPool> own;
    CompressorPool& pool;
    OutputFile file;
    SqfsPtr<sqfs_compressor_t> compressor;
    SqfsPtr<sqfs_frag_table_t> fragments;
    SqfsPtr<sqfs_xattr_writer_t> xattrs;
    sqfs_super_t super{};
    EntryTree tree;
    uint64_t target_bytes = 0;  // of symlinks
    std::optional<FileCutter> cutter;  // after all that it writes to
};

LayerWriter::LayerWriter(int fd, CompressorPool* pool, std::function<void(uint64_t)> on_final)
    : impl_(std::make_unique<Impl>(fd, pool, std::move(on_final))) {}

LayerWriter::~LayerWriter() = default;

std::string LayerWriter::resolved(std::string_view path) const {
    return impl_->tree.resolved(path);
}

uint64_t LayerWriter::entries() const {
    return impl_->tree.size();
}

void LayerWriter::add_directory(std::string_view path, const Attributes& attributes) {
    NewInode* existing = impl_->tree.find(path);
    if (existing != nullptr && existing->is_directory()) return impl_->set(*existing, attributes);
    impl_->add(path, attributes, S_IFDIR);
}

void LayerWriter::remove(std::string_view path) {
    impl_->tree.remove(path);
}

const BlockSums& LayerWriter::sums() const {
    return impl_->cutter->sums();
}

uint64_t LayerWriter::memory() const {
    return impl_->tree.bytes() + impl_->target_bytes;
}

void LayerWriter::mark_implied_directories(std::string_view marker) {
    std::vector<NewInode*> directories = impl_->tree.implied_directories();
    if (directories.empty()) return;
    // One file by many names: an archive can imply a thousand directories by a single one.
    NewInode& file = impl_->tree.make(S_IFREG);
    impl_->set(file, {.mode = 0});
    impl_->begin_data(file);
    end_file();
    for (NewInode* directory : directories) impl_->tree.put_in(*directory, marker, file);
}

void LayerWriter::add_symlink(std::string_view path, const Attributes& attributes, std::string_view target) {
    impl_->add(path, attributes, S_IFLNK).target = target;
    impl_->target_bytes += target.size();
}

void LayerWriter::add_special(std::string_view path, const Attributes& attributes, uint32_t type) {
    impl_->add(path, attributes, checked_special(type));
}

void LayerWriter::add_hardlink(std::string_view path, std::string_view existing) {
    link_entry(impl_->tree, path, existing);
}

void LayerWriter::begin_file(std::string_view path, const Attributes& attributes, uint64_t size) {
    impl_->begin_data(impl_->add(path, attributes, S_IFREG), size);
}

void LayerWriter::append(std::string_view data) {
    impl_->cutter->append(data);
}

void LayerWriter::append_zeros(uint64_t size) {
    impl_->cutter->append_zeros(size);
}

void LayerWriter::end_file() {
    impl_->cutter->end();
}

void LayerWriter::finish() {
    Impl& impl = *impl_;
    impl.cutter->finish(*impl.fragments);
    write_tables(impl.tree, {.file = impl.file,
                             .compressor = impl.compressor.get(),
                             .fragments = impl.fragments.get(),
                             .xattrs = impl.xattrs.get(),
                             .super = impl.super});
    impl.super.bytes_used = impl.file.size();
    impl.file.check(sqfs_super_write(&impl.super, &impl.file));
    // Loop devices have whole blocks: without the padding the kernel could not read the last table.
    uint64_t padded = (impl.file.size() + SQFS_DEVBLK_SIZE - 1) / SQFS_DEVBLK_SIZE * SQFS_DEVBLK_SIZE;
    impl.file.check(impl.file.truncate(&impl.file, padded));
    impl.file.flush();
    impl.file.check(0);
}

}  // namespace berth::squash
