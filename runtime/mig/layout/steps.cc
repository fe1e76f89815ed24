#include "runtime/mig/layout/steps.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

using Kind = Step::Kind;

bool has(const std::vector<Instance>& all, const Instance& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

bool has_place(const std::vector<Instance>& all, const Instance& one) {
    return std::any_of(all.begin(), all.end(), [&](const Instance& it) { return it.same_place(one); });
}

Instance bare(const Instance& one) { return {one.profile, one.place, {}}; }

void destroy(std::vector<Step>& out, const Instance& one) {
    for (auto compute = one.computes.rbegin(); compute != one.computes.rend(); ++compute)
        out.push_back({Kind::destroy_compute, bare(one), *compute});
    out.push_back({Kind::destroy_instance, bare(one), {}});
}

void create(std::vector<Step>& out, const Instance& one) {
    out.push_back({Kind::create_instance, bare(one), {}});
    for (const Compute& compute : one.computes) out.push_back({Kind::create_compute, bare(one), compute});
}

}  // namespace

std::vector<Step> steps_between(const Layout& now, const Layout& wanted) {
    std::vector<Step> out;
    if (wanted.mig && !now.mig) out.push_back({Kind::mode_on, {}, {}});
    for (const Instance& one : now.instances)
        if (!has(wanted.instances, one)) destroy(out, one);
    for (const Instance& one : wanted.instances)
        if (!has(now.instances, one)) create(out, one);
    if (!wanted.mig && now.mig) out.push_back({Kind::mode_off, {}, {}});
    return out;
}

std::string text_of(const Step& step, const Model& model) {
    const Profile* profile = model.numbered(step.instance.profile);
    std::string instance = cat(profile ? profile->name : cat("profile ", step.instance.profile), " at ",
                               step.instance.place.start, ':', step.instance.place.size);
    switch (step.kind) {
        case Kind::mode_on: return "turn MIG mode on";
        case Kind::mode_off: return "turn MIG mode off";
        case Kind::destroy_compute: return "destroy compute instance of " + instance;
        case Kind::destroy_instance: return "destroy " + instance;
        case Kind::create_instance: return "create " + instance;
        case Kind::create_compute: return "create compute instance of " + instance;
    }
    return {};
}

bool is_made_of(const Layout& now, const Layout& first, const Layout& wanted) {
    return std::all_of(now.instances.begin(), now.instances.end(), [&](const Instance& one) {
        return has_place(first.instances, one) || has_place(wanted.instances, one);
    });
}

}  // namespace berth::mig
