#include "runtime/oci/source/archive_reader.hh"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/tar_header.hh"

namespace berth::oci {

/// The file as libarchive's callbacks see it.
struct ArchiveReader::Input {
    int file;
    std::string what;
    uint64_t at = 0, end = 0;
    std::vector<char> buffer = std::vector<char>(64 << 10);
    std::exception_ptr failure = {};

    bool has_only_zeros_from(uint64_t position);

    static la_ssize_t read(archive*, void* self, const void** data);
    static la_int64_t skip(archive*, void* self, la_int64_t size);
};

/// What bsdtar pads an archive with that it writes to a pipe.
bool ArchiveReader::Input::has_only_zeros_from(uint64_t position) {
    while (position < end) {
        auto part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), end - position));
        if (!sys::pread_exact(file, part, position, what)) return false;
        if (std::ranges::any_of(part, [](char c) { return c != '\0'; })) return false;
        position += part.size();
    }
    return true;
}

la_ssize_t ArchiveReader::Input::read(archive*, void* self, const void** data) {
    auto& input = *static_cast<Input*>(self);
    try {
        if (input.at >= input.end) return 0;
        size_t size = std::min<uint64_t>(input.buffer.size(), input.end - input.at);
        if (!sys::pread_exact(input.file, std::span(input.buffer).first(size), input.at, input.what))
            throw Error("the archive became shorter while it was read; refused");
        input.at += size;
        *data = input.buffer.data();
        return static_cast<la_ssize_t>(size);
    } catch (...) {
        // An exception must not pass through libarchive.
        input.failure = std::current_exception();
        return ARCHIVE_FATAL;
    }
}

/// Not beyond the end, or a size that a header makes up would count as skipped. The padding of the last entry may be
/// missing, as in archives of some old tools.
la_int64_t ArchiveReader::Input::skip(archive*, void* self, la_int64_t size) {
    auto& input = *static_cast<Input*>(self);
    uint64_t padded_end = (input.end + tar_block - 1) / tar_block * tar_block;
    auto part = std::min<uint64_t>(static_cast<uint64_t>(size), padded_end - std::min(padded_end, input.at));
    input.at += part;
    return static_cast<la_int64_t>(part);
}

namespace {

/// EFTYPE of newer kernel headers (asm-generic/errno.h). A libarchive that was built with them has it where others have
/// EILSEQ, for what its header names nowhere: a file is not as its format has it.
constexpr int wrong_file_type = 134;

using Support = int (*)(archive*);

/// Those that libarchive has itself. For one that it was built without, it would start a program of that name.
void support_compressions(archive* reader) {
    constexpr Support all[] = {
        archive_read_support_filter_bzip2, archive_read_support_filter_compress, archive_read_support_filter_gzip,
        archive_read_support_filter_lz4,   archive_read_support_filter_lzip,     archive_read_support_filter_lzma,
        archive_read_support_filter_lzop,  archive_read_support_filter_xz,       archive_read_support_filter_zstd};
    for (Support support : all) {
        std::unique_ptr<archive, int (*)(archive*)> trial(archive_read_new(), archive_read_free);
        if (trial && support(trial.get()) == ARCHIVE_OK) support(reader);
    }
}

}  // namespace

void ArchiveReader::Free::operator()(archive* reader) const {
    archive_read_free(reader);
}

ArchiveReader::ArchiveReader(int file, As as, const std::string& what)
    : input_(new Input{.file = file, .what = what}), reader_(archive_read_new()) {
    if (!reader_) throw std::bad_alloc();
    input_->end = static_cast<uint64_t>(sys::stat_of(file, what).st_size);
    if (as == As::tar) {
        archive_read_support_format_tar(reader_.get());
        archive_read_set_skip_callback(reader_.get(), Input::skip);
    } else {
        archive_read_support_format_raw(reader_.get());
        support_compressions(reader_.get());
    }
    archive_read_set_read_callback(reader_.get(), Input::read);
    archive_read_set_callback_data(reader_.get(), input_.get());
}

ArchiveReader::~ArchiveReader() = default;

void ArchiveReader::fail() const {
    if (input_->failure) std::rethrow_exception(input_->failure);
    const char* text = archive_error_string(reader_.get());
    throw Error(text == nullptr ? "it is damaged or cut off" : printable(text));
}

/// A name that is not in the locale's character set is handed out as it stands.
bool ArchiveReader::is_of_locale(int result) const {
    int problem = archive_errno(reader_.get());
    return result == ARCHIVE_WARN && (problem == EILSEQ || problem == wrong_file_type);
}

archive_entry* ArchiveReader::next() {
    if (!std::exchange(is_open_, true) && archive_read_open1(reader_.get()) != ARCHIVE_OK) fail();
    archive_entry* entry = nullptr;
    int result = archive_read_next_header(reader_.get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    if (result != ARCHIVE_OK && !is_of_locale(result)) fail();
    return entry;
}

uint64_t ArchiveReader::header_position() const {
    return static_cast<uint64_t>(archive_read_header_position(reader_.get()));
}

uint64_t ArchiveReader::data_position() const {
    return static_cast<uint64_t>(archive_filter_bytes(reader_.get(), 0));
}

unsigned ArchiveReader::compressions() const {
    return static_cast<unsigned>(archive_filter_count(reader_.get())) - 1;  // the file itself counts as one
}

void ArchiveReader::read_all(const Sink& sink, const Advance& advance) {
    uint64_t at = 0;
    auto follow = [&] {
        auto now = static_cast<uint64_t>(archive_filter_bytes(reader_.get(), -1));
        if (advance) advance(now - at);
        at = now;
    };
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    int result = ARCHIVE_OK;
    while ((result = archive_read_data_block(reader_.get(), &data, &size, &offset)) == ARCHIVE_OK) {
        sink({static_cast<const char*>(data), size});
        follow();
    }
    if (result != ARCHIVE_EOF) fail();
    follow();
    if (at < input_->end && !input_->has_only_zeros_from(at))
        throw Error("bytes follow the end of the compressed data");
    if (advance) advance(input_->end - at);
}

}  // namespace berth::oci
