#include "runtime/host/job_answers.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t size_limit = 64 << 10;  ///< bytes: some 400 images
constexpr int64_t kept_for = 30 * 24 * 3600;  ///< seconds without use

bool is_file_name(const std::string& word) {
    return !word.empty() && word.size() <= 128 && word.front() != '.' &&
           std::all_of(word.begin(), word.end(), [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
}

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/')); }

/// Its time says from now on when it was used last. O_NONBLOCK: a pipe of that name must not stop a step.
Fd open_used(const std::string& file, int flags) {
    Fd out = sys::try_open_at(AT_FDCWD, file, flags | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (out) ::futimens(out.get(), nullptr);
    return out;
}

std::optional<Digest> answer_of(const Fd& file, const std::string& name) {
    ::lseek(file.get(), 0, SEEK_SET);
    return answer_in(sys::read_all(file.get(), size_limit, "what was answered in this job"), name);
}

void remove_unused(const std::string& folder) {
    Fd directory = sys::open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (const std::string& name : sys::list_directory(directory.get(), folder)) {
        struct stat st {};
        if (::fstatat(directory.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtim.tv_sec < ::time(nullptr) - kept_for)
            ::unlinkat(directory.get(), name.c_str(), 0);
    }
}

}  // namespace

std::optional<Digest> answer_in(std::string_view text, std::string_view name) {
    // What follows the last line end is half a line, whose writer was killed.
    for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
        std::string_view line = text.substr(0, end);
        size_t blank = line.find(' ');
        if (blank == line.npos || line.substr(blank + 1) != name) continue;
        if (auto digest = Digest::parse(line.substr(0, blank))) return digest;
    }
    return std::nullopt;
}

std::string job_answers_file(const std::vector<std::string>& environment, const std::string& home) {
    std::string job = value_in(environment, "SLURM_JOB_ID"), cluster = value_in(environment, "SLURM_CLUSTER_NAME");
    if (home.empty() || !is_file_name(job) || !is_file_name(cluster)) return {};
    return cat(home, "/.cache/berth-jobs/", cluster, ".", job);
}

std::optional<Digest> JobAnswers::find(const std::string& name) const try {
    Fd file = open_used(file_, O_RDONLY);
    return file ? answer_of(file, name) : std::nullopt;
} catch (const Error&) {
    return std::nullopt;
}

Digest JobAnswers::keep(const std::string& name, const Digest& digest) const try {
    sys::make_directories(folder_of(file_), 0700);
    remove_unused(folder_of(file_));
    Fd file = open_used(file_, O_RDWR | O_APPEND | O_CREAT);
    if (!file || sys::stat_of(file.get(), file_).st_size > static_cast<off_t>(size_limit) / 2) return digest;
    // One write to the end, so that two steps at once write whole lines. It begins with a line end because of a writer
    // that was killed in the middle of its line.
    sys::write_all(file.get(), cat("\n", digest, " ", name, "\n"), printable(file_, 4096));
    return answer_of(file, name).value_or(digest);
} catch (const Error&) {
    return digest;
}

}  // namespace berth
