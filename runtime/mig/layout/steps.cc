#include "runtime/mig/layout/steps.hh"

#include <algorithm>

#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

using Kind = Step::Kind;

bool has(const Layout& all, const Instance& one) {
    return std::any_of(all.begin(), all.end(), [&](const Instance& it) { return same_instance(it, one); });
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
    for (const Instance& one : now)
        if (!has(wanted, one)) destroy(out, one);
    for (const Instance& one : wanted)
        if (!has(now, one)) create(out, one);
    return out;
}

std::string text_of(const Step& step, const Model& model) {
    const Profile* profile = model.numbered(step.instance.profile);
    std::string instance = cat(profile ? profile->name : cat("profile ", step.instance.profile), " at ",
                               step.instance.place.start, ':', step.instance.place.size);
    switch (step.kind) {
        case Kind::destroy_compute: return "destroy compute instance of " + instance;
        case Kind::destroy_instance: return "destroy " + instance;
        case Kind::create_instance: return "create " + instance;
        case Kind::create_compute: return "create compute instance of " + instance;
    }
    return {};
}

}  // namespace berth::mig
