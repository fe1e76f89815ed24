#include "runtime/cli/enroot/containers.hh"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/access.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/host/facts.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

using enroot::Place;

FrontEnd front_end() {
    std::vector<std::string> environment = environment_of_this_process();
    if (std::string note = enroot::passed_over_note(environment); !note.empty()) say("WARN", note);
    FrontEnd out{enroot::settings_of(environment), site_of_caller(), caller_of_this_process()};
    out.settings.data_path = enroot::absolute_data_path(out.settings.data_path, out.caller.cwd);
    return out;
}

std::string FrontEnd::scope_of(const Place& place) const {
    const std::string& path = settings.data_path;
    if (place.kind == Place::Kind::own) return path.empty() ? enroot::own_scope : enroot::scope_of_path(path);
    return place.kind == Place::Kind::job ? job_scope(place.job) : scope_of_steps(site, 0, path);
}

std::string FrontEnd::earlier_folder() const {
    std::string out = settings.data_path + "/berth";
    return !settings.data_path.empty() && sys::may_access(out + "/locks", W_OK) ? out : "";
}

ContainerFolder FrontEnd::folder_of(const Place& place) const {
    if (std::string earlier = earlier_folder(); place.kind == Place::Kind::own && !earlier.empty())
        if (ContainerFolder folder = ContainerFolder::open(earlier, enroot::own_scope);
            sys::may_access(folder.path_of(place.name) + "/state", F_OK))
            return folder;
    return open_container_folder(site, caller, scope_of(place));
}

std::optional<Place> FrontEnd::find(const std::string& name) const {
    for (const Place& place : enroot::places_of(name)) {
        ContainerFolder folder = folder_of(place);
        std::vector<std::string> names = folder.names();
        if (std::find(names.begin(), names.end(), place.name) != names.end()) return place;
    }
    return std::nullopt;
}

Place FrontEnd::get(const std::string& name) const {
    if (auto place = find(name)) return *place;
    throw Error(cat("No such file or directory: there is no container ", printable(name),
                    "; enroot list has the names of those that are there"),
                1);
}

Place FrontEnd::place_for_new(const std::string& name) const {
    std::vector<Place> places = enroot::places_of(name);
    // What --container-name would find.
    bool of_job = site.defaults.container_scope == plan::ContainerScope::job;
    return of_job ? places.front() : places.back();
}

std::vector<Place> FrontEnd::all() const {
    std::vector<Place> out;
    auto add = [&](const ContainerFolder& folder, Place place) {
        bool of_path = folder.scope() == scope_of({Place::Kind::own, ""}) || enroot::is_scope_of_path(folder.scope());
        for (std::string& name : folder.names()) {
            // Else `enroot remove $(enroot list)` in one job would end what others run.
            if (!of_path && !settings.data_path.empty() && noted_data_path(folder, name).text != settings.data_path)
                continue;
            place.name = std::move(name);
            out.push_back(place);
        }
    };
    Place own{Place::Kind::own, ""}, shared{Place::Kind::shared, ""};
    add(open_container_folder(site, caller, scope_of(own)), own);
    if (std::string earlier = earlier_folder(); !earlier.empty())
        for (std::string& name : ContainerFolder::open(earlier, enroot::own_scope).names())
            out.push_back({Place::Kind::own, std::move(name)});
    ContainerFolder of_steps = open_container_folder(site, caller, scope_of(shared));
    add(of_steps, shared);
    for (uint32_t job : of_steps.jobs())
        add(ContainerFolder::open(of_steps.path(), job_scope(job)), {Place::Kind::job, "", job});
    std::sort(out.begin(), out.end(), [](const Place& one, const Place& other) { return one.shown() < other.shown(); });
    return out;
}

std::vector<ContainerFolder> FrontEnd::folders() const {
    std::vector<ContainerFolder> out;
    ContainerFolder any = open_container_folder(site, caller);
    for (const std::string& scope : any.scopes()) out.push_back(ContainerFolder::open(any.path(), scope));
    if (std::string earlier = earlier_folder(); !earlier.empty())
        out.push_back(ContainerFolder::open(earlier, enroot::own_scope));
    return out;
}

}  // namespace berth::cli
