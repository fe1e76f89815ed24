// The rules of a driver for MIG once more, in other words than the planner's, and random layouts that they allow.
#pragma once
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "runtime/mig/layout/models.hh"
#include "runtime/mig/layout/steps.hh"
#include "runtime/request/mig.hh"
#include "tests/catch.hh"

namespace berth::mig::test {

inline constexpr int random_layouts = 10'000;

using Random = std::mt19937;

inline unsigned below(Random& random, size_t limit) {
    return static_cast<unsigned>(std::uniform_int_distribution<size_t>(0, limit - 1)(random));
}

/// What the driver takes, in other words than the planner's: one bit for each slice of memory.
class Rules {
  public:
    explicit Rules(const Model& model) : model_(model) {}

    bool fits(const std::vector<Instance>& all, const Profile& profile, Placement place) const {
        unsigned memory = 0, decoders = profile.engines.decoders, flows = profile.engines.optical_flow;
        unsigned jpeg = profile.engines.jpeg, same = 1;
        for (const Instance& one : all) {
            const Profile& other = *model_.numbered(one.profile);
            memory |= mask(one.place);
            decoders += other.engines.decoders;
            jpeg += other.engines.jpeg;
            flows += other.engines.optical_flow;
            same += other.id == profile.id;
        }
        auto& places = profile.placements;
        const Engines& whole = std::max_element(model_.profiles.begin(), model_.profiles.end(), fewer)->engines;
        return std::find(places.begin(), places.end(), place) != places.end() && !(memory & mask(place)) &&
               decoders <= whole.decoders && jpeg <= whole.jpeg && flows <= whole.optical_flow && same <= profile.most;
    }

    /// A layout that the driver could have now, of as many instances as chance wants.
    Layout any_layout(Random& random) const {
        Layout out;
        for (int tries = 0; tries < 12; ++tries) {
            const Profile& profile = model_.profiles[below(random, model_.profiles.size())];
            Placement place = profile.placements[below(random, profile.placements.size())];
            if (!fits(out, profile, place)) continue;
            out.push_back({profile.id, place, computes(profile, random)});
        }
        return out;
    }

    /// Whether there is any layout of these profiles: all orders and places are tried.
    bool possible(std::vector<const Profile*> wanted, std::vector<Instance> placed = {}) const {
        if (wanted.empty()) return true;
        const Profile* profile = wanted.back();
        wanted.pop_back();
        for (const Placement& place : profile->placements) {
            if (!fits(placed, *profile, place)) continue;
            placed.push_back({profile->id, place, {}});
            if (possible(wanted, placed)) return true;
            placed.pop_back();
        }
        return false;
    }

    /// What a driver makes of a step; fails the test for one that it would refuse.
    void apply(Layout& layout, const Step& step) const {
        auto found = std::find_if(layout.begin(), layout.end(),
                                  [&](const Instance& one) { return one.same_place(step.instance); });
        bool there = found != layout.end();
        switch (step.kind) {
            case Step::Kind::create_instance:
                REQUIRE(fits(layout, *model_.numbered(step.instance.profile), step.instance.place));
                layout.push_back(step.instance);
                return;
            case Step::Kind::destroy_instance:
                REQUIRE(there);
                REQUIRE(found->computes.empty());
                layout.erase(found);
                return;
            case Step::Kind::create_compute:
                REQUIRE(there);
                found->computes.push_back(step.compute);
                return;
            case Step::Kind::destroy_compute:
                REQUIRE(there);
                REQUIRE(std::erase(found->computes, step.compute) == 1);
                return;
        }
    }

  private:
    static bool fewer(const Profile& one, const Profile& other) { return one.slices < other.slices; }
    static unsigned mask(Placement place) { return ((1U << place.size) - 1) << place.start; }

    /// Whole mostly, sometimes in parts of one slice, or none at all.
    static std::vector<Compute> computes(const Profile& profile, Random& random) {
        unsigned chance = below(random, 6);
        if (chance == 0) return {};
        if (chance > 1) return {{profile.slices == 7 ? 4 : profile.slices - 1, {0, profile.slices}}};
        std::vector<Compute> out;
        for (unsigned i = 0; i < profile.slices; ++i) out.push_back({0, {i, 1}});
        return out;
    }

    const Model& model_;
};

inline plan::MigRequest request_of(const Layout& layout, const Model& model) {
    std::map<std::string, unsigned> counts;
    for (const Instance& one : layout) ++counts[model.numbered(one.profile)->name];
    plan::MigRequest out;
    for (const auto& [name, count] : counts) out.push_back({name, count});
    return out;
}

}  // namespace berth::mig::test
