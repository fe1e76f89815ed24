// The node's MPI as a maker of edits: off unless the site or the job turns it on.
#include <algorithm>

#include "hooks/edits.hh"
#include "hooks/mpi/mpi.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

namespace {

const plan::Origin by_mpi = plan::Origin::of_site("hook mpi");
constexpr const char* keys[] = {"mpi.libraries", "mpi.dependencies", "mpi.mounts"};

bool is_below(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
}

/// What a library finds in its own folders needs no place in the image's when these come along at the same paths.
bool is_mounted(const Host& host, const std::vector<std::string>& mounts, const HostLibrary& library,
                const std::string& needed) {
    return std::ranges::any_of(library.object.run_path, [&](const std::string& folder) {
        return host.exists(cat(folder, "/", needed)) &&
               std::ranges::any_of(mounts, [&](const std::string& mount) { return is_below(folder, mount); });
    });
}

class MpiEdits {
  public:
    MpiEdits(const Host& host, const Rootfs& image) : host_(host), place_(library_place(image)) {
        loader_.folder = place_.folder;
    }

    void add(const MpiDecision::Placed& placed) {
        const HostLibrary& library = *placed.library;
        for (const auto& [file, reason] : placed.over) bind(library, file, reason);
        std::string at = placed.over.empty() ? cat(place_.folder, "/", library.name) : placed.over[0].file;
        if (placed.over.empty()) {
            bind(library, at, placed.reason);
            know(library.name, at);
        }
        for (const std::string& name : placed.aliases) {
            out_.edits.push_back({plan::Symlink{cat(place_.folder, "/", name), at, true}, by_mpi,
                                  "the name of a part of the node's MPI"});
            know(name, at);
        }
    }

    void add_mount(const std::string& path) {
        const std::string reason = "the node's MPI needs it (mpi.mounts)";
        if (host_.device(path)) {
            add_open_node(out_.edits, host_, path, by_mpi, reason);
        } else if (host_.exists(path)) {
            out_.edits.push_back(file_edit(host_, path, path, by_mpi, reason));
            std::get<plan::Mount>(out_.edits.back().action).create = plan::Mount::Create::automatic;
        }
    }

    plan::ContainerEdits finish() {
        if (!loader_.libraries.empty()) out_.edits.push_back({loader_, by_mpi, "how the loader finds them"});
        return std::move(out_);
    }

  private:
    void bind(const HostLibrary& library, const std::string& target, const std::string& reason) {
        out_.edits.push_back(file_edit(host_, library.file, target, by_mpi, reason));
    }

    void know(const std::string& name, const std::string& path) {
        loader_.libraries.push_back({.flags = loader_flags(), .name = name, .path = path});
    }

    const Host& host_;
    LibraryPlace place_;
    plan::LoaderLibraries loader_;
    plan::ContainerEdits out_;
};

plan::ContainerEdits make(const DeviceRequest& asked) {
    if (!asked.site.mpi.replace) return {};
    plan::ContainerEdits out = mpi_hook(asked.host, asked.image, asked.site.mpi, asked.image_variables,
                                        asked.site.set_by_user("mpi.replace"));
    if (!tells(asked.job)) out.warnings.clear();
    return out;
}

DeviceStatus status(const Host& host, const plan::Site& site) {
    return mpi_status(site.mpi, listed_libraries(host, site.mpi));
}

/// It has no devices, but what stands in the way of the site's choice is told here too.
DeviceList list(const DeviceListRequest& asked) {
    DeviceList out;
    const plan::MpiSettings& settings = asked.site.mpi;
    if (settings.libraries.empty()) return out;
    ListedLibraries listed = listed_libraries(asked.host, settings);
    out.about = cat(mpi_status(settings, listed).text, "; berth plan tells of an image");
    out.notes = listed.faults;
    return out;
}

}  // namespace

plan::ContainerEdits mpi_hook(const Host& host, const Rootfs& image, const plan::MpiSettings& settings,
                              const std::vector<std::string>& image_variables, bool asked_by_user) {
    plan::ContainerEdits none;
    auto keep = [&](const std::string& why) {
        none.warnings.push_back("the container has the image's own MPI: " + why);
        return none;
    };
    if (settings.libraries.empty())
        return asked_by_user ? keep("mpi.libraries of berth.conf names none of the node") : none;
    ListedLibraries listed = listed_libraries(host, settings);
    if (!listed.faults.empty()) return keep(listed.faults[0]);
    const std::vector<std::string> mounts = expanded(host, settings.mounts);
    ImageLibraries libraries(image, image_variables);
    MpiFacts facts{.libraries = std::move(listed.libraries),
                   .dependencies = std::move(listed.dependencies),
                   .image = [&](const std::string& name) { return libraries.find(name); },
                   .is_mounted =
                       [&](const HostLibrary& library, const std::string& needed) {
                           return is_mounted(host, mounts, library, needed);
                       }};
    MpiDecision decision = decide_mpi(facts, settings.check);
    if (decision.outcome == MpiDecision::Outcome::unfit) return keep(decision.why);
    if (decision.outcome == MpiDecision::Outcome::nothing_to_replace)
        return asked_by_user ? keep(decision.why) : none;
    MpiEdits edits(host, image);
    for (const MpiDecision::Placed& placed : decision.placed) edits.add(placed);
    for (const std::string& path : mounts) edits.add_mount(path);
    return edits.finish();
}

DeviceStatus mpi_status(const plan::MpiSettings& settings, const ListedLibraries& listed) {
    using Level = DeviceStatus::Level;
    const std::string subject = "MPI";
    if (settings.libraries.empty())
        return {Level::note, subject, settings.replace ? "mpi.replace is on, and mpi.libraries names none"
                                                       : "containers have their image's own"};
    if (!listed.faults.empty())
        return {Level::warning, subject, cat("containers have their image's own: ", listed.faults[0]),
                "correct the path, or install it on this node"};
    std::string names;
    for (const HostLibrary& library : listed.libraries) names += cat(names.empty() ? "" : ", ", library.file);
    return {settings.replace ? Level::ok : Level::note, subject,
            cat(names, settings.replace ? " in place of the image's, where it fits"
                                        : " in place of the image's for jobs with BERTH_MPI_REPLACE=true")};
}

extern const DeviceMaker mpi_maker{.vendor = "mpi", .make = make, .keys = keys, .status = status, .list = list};

}  // namespace berth::hooks
