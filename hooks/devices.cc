#include "hooks/devices.hh"

#include <algorithm>
#include <memory>

#include "hooks/cdi_native.hh"
#include "hooks/makers.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"

namespace berth {

namespace {

void check_names(const std::vector<std::string>& disabled) {
    std::string known;
    for (const hooks::DeviceMaker* maker : hooks::device_makers())
        known += cat(known.empty() ? "" : ", ", maker->vendor);
    for (const std::string& name : disabled)
        if (std::ranges::none_of(hooks::device_makers(), [&](const auto* maker) { return maker->vendor == name; }))
            throw Error(cat("devices.disabled: '", printable(name), "' is none of ", known));
}

/// The image's and the site's, each once: makers look for the first of a name.
std::vector<std::string> container_variables(std::vector<std::string> out, const plan::Site& site) {
    for (const std::string& text : plan::site_variables(site, out)) {
        std::string start = text.substr(0, text.find('=') + 1);
        std::erase_if(out, [&](const std::string& one) { return one.starts_with(start); });
        out.push_back(text);
    }
    return out;
}

/// What a maker takes from a place that the user has named is the user's choice.
void judge_as_the_users(plan::ContainerEdits& made, const hooks::DeviceMaker& maker, const plan::Site& site) {
    for (const char* key : maker.keys)
        if (site.set_by_user(key))
            for (plan::Edit& edit : made.edits) edit.origin = cat(edit.origin, ", by ", plan::variable_of(key));
}

/// In place of an image that is not opened: of the node's files none depends on it.
class NoFiles : public hooks::Rootfs {
  public:
    bool exists(const std::string&) const override { return false; }
    std::optional<std::string> resolved(const std::string&) const override { return std::nullopt; }
    std::vector<std::string> list(const std::string&) const override { return {}; }
    std::string read(const std::string&, uint64_t, size_t) const override { return {}; }
};

bool adds_something(const plan::ContainerEdits& made) {
    return !made.edits.empty() || !made.environment.empty() || !made.devices.empty() || !made.warnings.empty();
}

}  // namespace

std::vector<plan::ContainerEdits> device_edits(const hooks::Host& host, const ContainerImage& image,
                                               const plan::Site& site, const std::vector<std::string>& environment,
                                               const std::function<void(const std::string&)>& warn) {
    check_names(site.devices.disabled);
    std::vector<plan::ContainerEdits> out;
    std::vector<std::string> image_variables = container_variables(image.index.config().env, site);
    std::unique_ptr<hooks::Rootfs> rootfs = hooks::rootfs_of(image);
    for (const hooks::DeviceMaker* maker : hooks::device_makers()) {
        if (std::ranges::find(site.devices.disabled, maker->vendor) != site.devices.disabled.end()) continue;
        auto job = hooks::with_native_devices(*maker, host, site, image_variables, environment);
        plan::ContainerEdits made = maker->make({.host = host,
                                                  .image = *rootfs,
                                                  .site = site,
                                                  .image_variables = image_variables,
                                                  .job = job ? *job : environment,
                                                  .before = out});
        made.vendor = maker->vendor;
        made.granted = maker->grants != nullptr;
        debug::log("devices", maker->vendor, ": edits ", made.edits.size(), ", variables ", made.environment.size(),
                   ", devices ", made.devices.size());
        judge_as_the_users(made, *maker, site);
        if (adds_something(made)) out.push_back(std::move(made));
    }
    for (const plan::ContainerEdits& made : out)
        for (const std::string& line : made.warnings)
            if (warn) warn("warning: " + line);
    return out;
}

std::vector<plan::ContainerEdits> device_edits(const ContainerImage& image, const plan::Site& site,
                                               const std::vector<std::string>& environment,
                                               const std::function<void(const std::string&)>& warn) {
    return device_edits(hooks::Host(), image, site, environment, warn);
}

plan::DeviceGrant granted_devices(const hooks::Host& host, const std::vector<std::string>& image,
                                  const plan::Site& site, const std::vector<std::string>& environment) {
    std::vector<plan::ContainerEdits> out;
    std::vector<std::string> image_variables = container_variables(image, site);
    for (const hooks::DeviceMaker* maker : hooks::device_makers()) {
        if (maker->grants == nullptr || !maker->grants(host, site, environment) ||
            std::ranges::find(site.devices.disabled, maker->vendor) != site.devices.disabled.end())
            continue;
        auto job = hooks::with_native_devices(*maker, host, site, image_variables, environment);
        out.push_back(maker->make({.host = host,
                                   .image = NoFiles(),
                                   .site = site,
                                   .image_variables = image_variables,
                                   .job = job ? *job : environment,
                                   .before = out}));
        out.back().vendor = maker->vendor;
        out.back().granted = true;
    }
    return plan::device_grant(out);
}

plan::DeviceGrant granted_devices(const std::vector<std::string>& image, const plan::Site& site,
                                  const std::vector<std::string>& environment) {
    return granted_devices(hooks::Host(), image, site, environment);
}

}  // namespace berth
