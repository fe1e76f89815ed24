#include "runtime/trust/sif_contents.hh"

#include <algorithm>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/trust/digester.hh"

namespace berth::trust {

namespace {

constexpr size_t read_at_once = 1 << 20;
static_assert(read_at_once % squash::PartSums::chunk == 0);

}  // namespace

SifContents::SifContents(int fd, std::string what, Progress progress)
    : fd_(fd), what_(std::move(what)), progress_(std::move(progress)), sif_(squash::read_sif(fd, what_)) {
    std::set<uint32_t> seen;
    for (const squash::sif::Descriptor& one : sif_.used)
        if (uint32_t id = one.id; !seen.insert(id).second) refuse(cat("two objects have the number ", id));
    for (const squash::sif::Descriptor& one : sif_.used)
        if (one.type != squash::sif::type_signature) total_ += static_cast<uint64_t>(one.size);
}

void SifContents::refuse(const std::string& why) const {
    throw Error(cat("verifying ", printable(what_, 4096), ": ", why));
}

std::string SifContents::bytes(const squash::sif::Descriptor& object) const {
    std::string out(static_cast<size_t>(object.size), '\0');
    if (!sys::pread_exact(fd_, out, static_cast<uint64_t>(object.offset), what_))
        refuse("the file became shorter meanwhile");
    return out;
}

std::string SifContents::digest(const squash::sif::Descriptor& object, const std::string& algorithm) {
    std::string& known = digests_[{object.id, algorithm}];
    if (!known.empty()) return known;
    Digester digester(algorithm);
    read_into(digester, object);
    return known = digester.finish();
}

std::string SifContents::digest(const std::vector<const squash::sif::Descriptor*>& objects,
                                const std::string& algorithm) {
    Digester digester(algorithm);
    for (const squash::sif::Descriptor* object : objects) read_into(digester, *object);
    return digester.finish();
}

void SifContents::read_into(Digester& digester, const squash::sif::Descriptor& object) {
    uint32_t id = object.id;
    bool is_part = std::ranges::any_of(parts_, [&](const auto& part) { return part.id == id; });
    squash::PartSums maker{.key = key_, .parts = {}, .content = {}};
    std::vector<uint64_t> sums;
    std::string part;
    for (int64_t at = 0; at < object.size; at += static_cast<int64_t>(part.size())) {
        part.resize(std::min<size_t>(read_at_once, static_cast<size_t>(object.size - at)));
        if (!sys::pread_exact(fd_, part, static_cast<uint64_t>(object.offset + at), what_))
            refuse("the file became shorter meanwhile");
        digester.update(part);
        if (is_part) maker.add_sums(part, sums);
        done_ += part.size();
        if (progress_) progress_(done_, std::max(total_, done_));
    }
    if (is_part) keep_sums(id, std::move(sums));
}

void SifContents::keep_sums(uint32_t id, std::vector<uint64_t> fresh) {
    auto [kept, is_new] = sums_.try_emplace(id, fresh);
    if (!is_new && kept->second != fresh) refuse("the file was changed meanwhile");
}

void SifContents::make_sums() {
    auto before = [](const auto& a, const auto& b) { return a.id < b.id; };
    if (!std::ranges::is_sorted(sif_.used, before))
        refuse("its descriptors are not in the order of their numbers, which decides which overlay lies over which");
    parts_ = squash::sif_image_parts(sif_, what_);
    key_ = random_sip_key();
}

squash::PartSums SifContents::sums() const {
    squash::PartSums out{.key = key_, .parts = {}, .content = {}};
    Digester content("sha256");
    for (const squash::sif::Descriptor& part : parts_) {
        uint32_t id = part.id;
        auto found = sums_.find(id);
        auto digest = std::ranges::find_if(digests_, [&](const auto& one) { return one.first.first == id; });
        if (found == sums_.end() || digest == digests_.end()) refuse(cat("object ", id, " is covered by nothing"));
        out.parts.push_back({{static_cast<uint64_t>(part.offset), static_cast<uint64_t>(part.size)}, found->second});
        content.update(cat(digest->first.second, ":", digest->second, "\n"));
    }
    out.content = content.finish();
    return out;
}

}  // namespace berth::trust
