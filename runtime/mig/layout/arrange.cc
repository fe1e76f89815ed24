#include "runtime/mig/layout/arrange.hh"

#include <algorithm>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

Engines all_engines(const Model& model) {
    Engines out;
    for (const Profile& profile : model.profiles) {
        out.decoders = std::max(out.decoders, profile.engines.decoders);
        out.jpeg = std::max(out.jpeg, profile.engines.jpeg);
        out.optical_flow = std::max(out.optical_flow, profile.engines.optical_flow);
    }
    return out;
}

unsigned largest_size(const Profile& profile) {
    unsigned out = 0;
    for (const Placement& place : profile.placements) out = std::max(out, place.size);
    return out;
}

/// Tries all places, the large instances first. There are at most eight instances of at most seven places.
class Search {
  public:
    Search(const Model& model, std::vector<const Profile*> wanted)
        : engines_(all_engines(model)), wanted_(std::move(wanted)) {
        std::stable_sort(wanted_.begin(), wanted_.end(), [](const Profile* one, const Profile* other) {
            return largest_size(*one) > largest_size(*other);
        });
    }

    std::optional<std::vector<Instance>> run() {
        if (!place_from(0)) return std::nullopt;
        return placed_;
    }

  private:
    bool engines_suffice(const Engines& more) {
        Engines sum{used_.decoders + more.decoders, used_.jpeg + more.jpeg, used_.optical_flow + more.optical_flow};
        if (sum.decoders > engines_.decoders || sum.jpeg > engines_.jpeg || sum.optical_flow > engines_.optical_flow)
            return false;
        used_ = sum;
        return true;
    }

    bool is_free(const Placement& place) const {
        return std::none_of(placed_.begin(), placed_.end(), [&](const Instance& it) { return it.place.meets(place); });
    }

    /// Of instances that are alike the later ones stand behind.
    bool in_order(size_t at, const Placement& place) const {
        return at == 0 || wanted_[at] != wanted_[at - 1] || placed_.back().place < place;
    }

    bool place_from(size_t at) {
        if (at == wanted_.size()) return true;
        const Profile& profile = *wanted_[at];
        Engines before = used_;
        if (!engines_suffice(profile.engines)) return false;
        for (const Placement& place : profile.placements) {
            if (!is_free(place) || !in_order(at, place)) continue;
            placed_.push_back({profile.id, place, {compute_of(profile.slices)}});
            if (place_from(at + 1)) return true;
            placed_.pop_back();
        }
        used_ = before;
        return false;
    }

    Engines engines_, used_;
    std::vector<const Profile*> wanted_;
    std::vector<Instance> placed_;
};

std::string names_of(const Model& model) {
    std::string out;
    for (const Profile& profile : model.profiles)
        if (!profile.name.empty()) out += cat(out.empty() ? "" : ", ", profile.name);
    return out;
}

}  // namespace

Layout arrange(const Model& model, const plan::MigRequest& request) {
    std::vector<const Profile*> wanted;
    for (const plan::MigItem& item : request) {
        const Profile* profile = model.named(item.profile);
        if (!profile)
            throw Error(cat("an ", printable(model.name), " has no MIG profile ", printable(item.profile),
                            "; it has ", names_of(model)));
        if (item.count > profile->most)
            throw Error(cat("an ", printable(model.name), " can have ", profile->most, " MIG devices ",
                            printable(item.profile), ", not ", item.count));
        wanted.insert(wanted.end(), item.count, profile);
    }
    auto placed = Search(model, std::move(wanted)).run();
    if (!placed)
        throw Error(cat(printable(plan::mig_text(request)), " does not fit on an ", printable(model.name),
                        "; ask for fewer or smaller MIG devices"));
    return std::move(*placed);
}

}  // namespace berth::mig
