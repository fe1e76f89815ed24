// What a start has to know of its host, looked up: the caller, the site file, the paths that exist, the store.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/request.hh"
#include "runtime/store/store.hh"

namespace berth {

/// The owner of this process, with the names that the system's databases have for it; an account that is in none has
/// the HOME of its environment.
plan::Caller caller_of_this_process();

/// Which of plan::host_paths() exist.
plan::HostFacts host_facts();

/// What a start will do on this host: plan::make_plan() with what it has to know, compared with the site's policy.
/// Throws Error.
plan::Plan plan_here(const plan::Request& request, const plan::Caller& caller, const plan::Job& job,
                     const plan::Site& site, const plan::ImageConfig& image,
                     const std::vector<plan::ContainerEdits>& devices);

inline constexpr const char* site_path = "/etc/berth/berth.conf";

/// Throws Error when `file`, opened from `path`, could have been written by somebody else than root.
void check_site_owner(int file, const std::string& path);

/// The settings of the site file, or the defaults when there is none. Throws Error when it could have been written by
/// somebody else than root.
plan::Site load_site(const std::string& path = site_path);

/// The caller's store at the site's place; when that is the built-in default, is not there and cannot be made here,
/// ~/.cache/berth. Throws Error.
store::Store open_store(const plan::Site& site, const plan::Caller& caller);

/// Whether open_store() would make no folder.
bool has_store(const plan::Site& site, const plan::Caller& caller);

/// What a person is to hear before open_store() makes ~/.cache/berth: once, since it is there afterwards. Else empty.
/// Throws Error where open_store() would.
std::string note_on_store(const plan::Site& site, const plan::Caller& caller);

}  // namespace berth
