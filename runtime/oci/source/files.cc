#include "runtime/oci/source/files.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

class Folder : public Files {
  public:
    Folder(Fd directory, std::string what) : directory_(std::move(directory)), what_(std::move(what)) {}

    std::optional<Piece> find(const std::string& path) const override {
        Fd file;
        try {
            // Not to wait for a writer when somebody put a FIFO there.
            file = sys::open_beneath(directory_.get(), path, O_RDONLY | O_NONBLOCK);
        } catch (const SysError& error) {
            if (error.number() == ENOENT || error.number() == ENOTDIR) return std::nullopt;
            if (error.number() == ELOOP || error.number() == EXDEV)
                throw Error(cat(what_, ": ", printable(path),
                                " is or goes through a symlink, which an image layout has none of; refused; cp -rL "
                                "makes a copy with files in their place"));
            throw;
        }
        struct stat st = sys::stat_of(file.get(), printable(path));
        if (!S_ISREG(st.st_mode)) throw Error(cat(what_, ": ", printable(path), " is no regular file; refused"));
        return Piece{std::make_shared<const Fd>(std::move(file)), 0, static_cast<uint64_t>(st.st_size), path};
    }

  private:
    Fd directory_;
    std::string what_;
};

}  // namespace

std::shared_ptr<const Files> open_folder(const std::string& path, const std::string& what) {
    return std::make_shared<Folder>(sys::open_file(path, O_RDONLY | O_DIRECTORY), what);
}

void naming(const std::string& what, const char* doing, const std::function<void()>& work) {
    try {
        work();
    } catch (const SysError&) {
        throw;
    } catch (const Error& error) {
        std::string line = error.what();
        throw Error(line.starts_with(what) ? line : cat(what, ": ", doing, ": ", line));
    }
}

std::string read_piece(const Piece& piece, size_t limit, const std::string& what) {
    if (piece.size > limit)
        throw Error(
            cat(what, ": ", printable(piece.name), " has ", piece.size, " bytes, more than the limit of ", limit));
    std::string out;
    out.reserve(piece.size);
    stream_piece(piece, [&](std::string_view data) { out += data; }, what);
    return out;
}

namespace {

constexpr size_t streamed_at_once = 256 << 10;

void stream_zeros(uint64_t size, const Sink& sink) {
    static const std::string zeros(streamed_at_once, '\0');
    for (uint64_t part; size > 0; size -= part) {
        part = std::min<uint64_t>(size, zeros.size());
        sink(std::string_view(zeros).substr(0, part));
    }
}

}  // namespace

void stream_piece(const Piece& piece, const Sink& sink, const std::string& what) {
    std::vector<char> buffer(std::min<uint64_t>(streamed_at_once, piece.size));
    std::string name = cat(what, ": ", printable(piece.name));
    auto stream_stored = [&](uint64_t from, uint64_t size) {
        for (uint64_t at = 0; at < size;) {
            auto next = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size - at));
            if (!sys::pread_exact(piece.file->get(), next, from + at, name))
                throw Error(cat(name, ": became shorter while it was read"));
            sink({next.data(), next.size()});
            at += next.size();
        }
    };
    if (!piece.stored) return stream_stored(piece.offset, piece.size);
    uint64_t at = 0, from = piece.offset;
    for (const SparsePiece& part : *piece.stored) {
        stream_zeros(part.offset - at, sink);
        stream_stored(from, part.length);
        at = part.offset + part.length;
        from += part.length;
    }
    stream_zeros(piece.size - at, sink);
}

}  // namespace berth::oci
