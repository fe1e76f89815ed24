#include "runtime/images/prefetch_record.hh"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/squash/read/prefetch_list.hh"
#include "runtime/squash/read/read_log.hh"

namespace berth {

namespace {

constexpr int64_t learnt_for = 7 * 24 * 3600;
/// How long a container is watched: what is read later belongs to no start.
constexpr auto watched = std::chrono::seconds(60);

/// A file that cannot be read is replaced by what this start reads.
squash::PrefetchBytes known_list(const store::Store& store, const std::string& index) try {
    auto file = store.find_prefetch_list(index, squash::prefetch_file_limit);
    int64_t learnt = squash::prefetch_learnt(file.value_or("")), now = std::time(nullptr);
    if (learnt <= now - learnt_for || learnt > now) return nullptr;
    return std::make_shared<const std::string>(std::move(*file));
} catch (const Error&) {
    return nullptr;
}

/// What is added to: a new list where there is none, of the time of the start, or one with room for nothing more.
squash::PrefetchList list_before(const squash::PrefetchBytes& known, int64_t learnt) {
    squash::PrefetchList out = squash::parse_prefetch_list(known ? *known : "");
    if (out.extents.empty()) return {learnt, {}, {}};
    return out.extents.size() < squash::prefetch_extents ? out : squash::PrefetchList{std::time(nullptr), {}, {}};
}

/// Starts that read little leave things as they are.
void keep(const store::Store& store, const std::string& index, const squash::PrefetchBytes& known, int64_t learnt,
          const squash::ReadLog& log) noexcept try {
    if (!log.is_decided()) return;
    squash::PrefetchList before = list_before(known, learnt);
    squash::PrefetchList now = squash::merged(before, log.reads());
    if (now.extents != before.extents || now.missing != before.missing)
        store.put_prefetch_list(index, squash::format_prefetch_list(now));
} catch (const std::exception&) {
    // The next start learns it.
}

HotImage hot_image(const store::Store& store, const store::HotKey& key, const store::HotLimits& limits,
                   std::string& note) try {
    HotImage out{store::find_hot(store, key), store.directory("hot"), {}};
    note = store::take_hot_note(store);
    out.order = {out.hot.get(), key, limits};
    return out;
} catch (const Error&) {
    return {};
}

}  // namespace

store::HotLimits hot_limits(const plan::Site& site) {
    const std::vector<std::string> all{"*"};
    const plan::PolicySettings& policy = site.policy;
    bool are_proved = !policy.signatures.empty() || policy.image_owners != all || policy.image_paths != all;
    return are_proved ? store::HotLimits() : store::HotLimits{site.mount.hot_image_size, site.mount.hot_store_size};
}

void prefetch_known_reads(OpenedImage& opened, store::Store store, const store::HotLimits& hot,
                          plan::ImageModes modes) noexcept try {
    ContainerImage& image = opened.image;
    if (image.layers.empty() || image.coming.map || !image.directory.empty()) return;
    std::string index = image.index.id();
    image.reads.known = known_list(store, index);
    int64_t learnt = image.reads.known ? squash::prefetch_learnt(*image.reads.known) : std::time(nullptr);
    if (hot.wanted())
        image.hot = hot_image(store, {index, ::getegid(), modes, store::boot_word(), learnt}, hot, opened.note);
    image.reads.log =
        std::make_shared<squash::ReadLog>(image.reads.known, squash::ReadLog::Clock::now() + watched);
    image.reads.keep = [kept = std::make_shared<const store::Store>(std::move(store)), index,
                        known = image.reads.known, learnt, log = image.reads.log] {
        keep(*kept, index, known, learnt, *log);
    };
} catch (const std::exception&) {
    opened.image.reads = {};
    opened.image.hot = {};
}

}  // namespace berth
