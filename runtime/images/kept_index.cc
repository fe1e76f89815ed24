#include "runtime/images/kept_index.hh"

#include <sys/stat.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/store/extracted.hh"

namespace berth {

namespace {

/// Goes up when another index is built of the same file.
constexpr unsigned reader_release = 1;
/// A file that was changed less than so many seconds ago can be changed once more without another time.
constexpr int64_t settled_after = 2;

std::string form_of(IndexOf what) {
    return cat(what == IndexOf::image ? "index." : "data.", squash::format::version, ".", reader_release);
}

std::optional<squash::Index> find(const store::Store& store, const Digest& key, const std::string& form) try {
    Fd found = store::open_file_index(store, key, form);
    if (!found) return std::nullopt;
    squash::Index out = squash::Index::open(
        found.get(), "of a file", cat("remove ", printable(sys::opened_path(found.get()), 4096), ", it is made anew"));
    // The store sees by this that it is used.
    store::Lease used = store.lease(key);
    return out;
} catch (const Error&) {
    return std::nullopt;
}

void keep(const store::Store& store, int file, const Digest& key, const std::string& form, const std::string& bytes,
          int64_t now) try {
    int64_t changed = sys::stat_of(file, "an image file").st_ctim.tv_sec;
    bool is_settled = changed < now - settled_after && store::file_key(file) == key;
    if (is_settled) store::add_file_index(store, key, form, bytes);
} catch (const Error&) {
    // The next start builds it again.
}

}  // namespace

squash::Index kept_index(int file, IndexOf what, const store::Store* store, const std::function<std::string()>& build,
                         int64_t now) {
    if (store == nullptr) return squash::Index::from_bytes(build());
    Digest key = store::file_key(file);
    std::string form = form_of(what);
    if (auto kept = find(*store, key, form)) return std::move(*kept);
    std::string bytes = build();
    keep(*store, file, key, form, bytes, now);
    return squash::Index::from_bytes(std::move(bytes));
}

std::optional<store::Store> store_of_indexes(const plan::Site& site, const plan::Caller& caller) {
    if (!site.policy.signatures.empty() || !has_store(site, caller)) return std::nullopt;
    return open_store(site, caller);
}

}  // namespace berth
