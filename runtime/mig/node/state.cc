#include "runtime/mig/node/state.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

constexpr size_t most_bytes = 1 << 16;
/// Of a file that is being written. Whoever has the lock may write it over.
constexpr const char* unfinished = ".new";

Fd folder(const std::string& path) {
    sys::make_directories(path, 0755);
    return sys::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Lock lock_of(const std::string& path, std::chrono::seconds patience) {
    Fd file = sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    auto end = std::chrono::steady_clock::now() + patience;
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) throw SysError(cat("locking ", path));
        if (std::chrono::steady_clock::now() >= end)
            throw Error(cat("locking ", path, ": another berth-mig has held it for ", patience.count(),
                            " s; see whether nvidia-smi gets an answer"));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return Lock(std::move(file));
}

void put(int directory, const std::string& name, const std::string& text, const std::string& what) {
    {
        Fd file = sys::open_at(directory, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
        sys::write_all(file.get(), text, what);
        if (::fsync(file.get()) != 0) throw SysError(cat("writing ", what));
    }
    if (::renameat(directory, unfinished, directory, name.c_str()) != 0 || ::fsync(directory) != 0)
        throw SysError(cat("writing ", what));
}

void take_away(int directory, const std::string& name, const std::string& what) {
    if (::unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT) throw SysError(cat("removing ", what));
    if (::fsync(directory) != 0) throw SysError(cat("removing ", what));
}

/// A GPU's UUID is the name of its record.
const std::string& file_name(const std::string& uuid) {
    if (uuid.empty() || uuid[0] == '.' || uuid.size() > 96 || uuid.find_first_of("/\n ") != uuid.npos)
        throw Error(cat("GPU ", printable(uuid), ": this is no UUID"));
    return uuid;
}

}  // namespace

State::State(std::string path, std::chrono::seconds patience)
    : path_(std::move(path)), patience_(patience), gpus_(folder(path_ + "/gpus")), jobs_(folder(path_ + "/jobs")),
      lock_(lock_of(path_ + "/lock", patience)) {}

void State::without_lock(const std::function<void()>& wait) {
    lock_.unlock();
    wait();
    lock_ = lock_of(path_ + "/lock", patience_);
}

bool State::is_empty(const std::string& path) {
    for (const char* name : {"/gpus", "/jobs"}) {
        Fd directory = sys::open_if_exists(AT_FDCWD, path + name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (directory && !sys::list_directory(directory.get(), path + name).empty()) return false;
    }
    return true;
}

std::vector<Record> State::records() const {
    std::vector<Record> out;
    for (const std::string& name : sys::list_directory(gpus_.get(), path_ + "/gpus")) {
        if (name[0] == '.') continue;
        std::string what = cat(path_, "/gpus/", printable(name));
        Fd file = sys::open_at(gpus_.get(), name, O_RDONLY | O_NOFOLLOW);
        try {
            out.push_back(parse_record(sys::read_all(file.get(), most_bytes, what)));
        } catch (const Error& error) {
            throw Error(
                cat("reading ", what, ": ", error.what(), "; divide the GPU by nvidia-smi and remove the file"));
        }
    }
    return out;
}

void State::keep(const Record& record) const {
    put(gpus_.get(), file_name(record.gpu), record_text(record), cat(path_, "/gpus/", record.gpu));
}

void State::drop(const Record& record) const {
    take_away(gpus_.get(), file_name(record.gpu), cat(path_, "/gpus/", record.gpu));
}

void State::tell(uint32_t job, const std::string& line) const {
    put(jobs_.get(), std::to_string(job), line + "\n", cat(path_, "/jobs/", job));
}

void State::forget_all() const {
    for (const std::string& name : sys::list_directory(jobs_.get(), path_ + "/jobs"))
        take_away(jobs_.get(), name, cat(path_, "/jobs/", printable(name)));
}

void State::forget(uint32_t job) const { take_away(jobs_.get(), std::to_string(job), cat(path_, "/jobs/", job)); }

}  // namespace berth::mig
