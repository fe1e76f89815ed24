#include "runtime/cli/enroot/containers.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/host/facts.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

using enroot::Place;

std::string scope_of(const Place& place) {
    if (place.kind == Place::Kind::own) return enroot::own_scope;
    return place.kind == Place::Kind::job ? job_scope(place.job) : "global";
}

FrontEnd front_end() {
    std::vector<std::string> environment = environment_of_this_process();
    if (std::string note = enroot::passed_over_note(environment); !note.empty()) say("WARN", note);
    return {enroot::settings_of(environment), site_of_caller(), caller_of_this_process()};
}

std::string FrontEnd::own_folder_of(const Place& place) const {
    if (place.kind != Place::Kind::own || settings.data_path.empty()) return {};
    // Others may look into the folder itself, which Enroot leaves as it is.
    return settings.data_path + "/berth";
}

ContainerFolder FrontEnd::folder_of(const Place& place) const {
    std::string own = own_folder_of(place);
    return own.empty() ? open_container_folder(site, caller, scope_of(place))
                       : ContainerFolder::open(own, scope_of(place));
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
    auto add = [&](Place place) {
        for (std::string& name : folder_of(place).names()) {
            place.name = std::move(name);
            out.push_back(place);
        }
    };
    add({Place::Kind::own, ""});
    Place shared{Place::Kind::shared, ""};
    add(shared);
    for (uint32_t job : folder_of(shared).jobs()) add({Place::Kind::job, "", job});
    std::sort(out.begin(), out.end(), [](const Place& one, const Place& other) { return one.shown() < other.shown(); });
    return out;
}

}  // namespace berth::cli
