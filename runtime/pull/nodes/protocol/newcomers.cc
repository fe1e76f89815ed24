#include "runtime/pull/nodes/protocol/newcomers.hh"

#include <sys/resource.h>

#include <algorithm>

#include "runtime/base/error.hh"

namespace berth::pull::nodes {

std::vector<Newcomers::Id> Newcomers::take_oldest() {
    if (came_.empty()) return {};
    Id oldest = came_.begin()->first;
    came_.erase(came_.begin());
    return {oldest};
}

std::vector<Newcomers::Id> Newcomers::take_overdue(Time now) {
    std::vector<Id> out;
    while (!came_.empty() && (came_.size() > limit_ || now - came_.begin()->second >= patience_)) {
        out.push_back(came_.begin()->first);
        came_.erase(came_.begin());
    }
    return out;
}

size_t raise_file_limit() {
    constexpr rlim_t enough = 65536;
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw SysError("asking for the limit of open files");
    if (files.rlim_cur < enough) {
        files.rlim_cur = std::min(files.rlim_max, enough);
        (void)::setrlimit(RLIMIT_NOFILE, &files);
        if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw SysError("asking for the limit of open files");
    }
    return files.rlim_cur;
}

}  // namespace berth::pull::nodes
