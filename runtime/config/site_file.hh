// The site file /etc/berth/berth.conf (TOML) into the Site struct. Pure: text in, value out.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

/// Parses `text`; unknown keys, wrong types and values are refused with Error naming `name`, line and column: the first
/// one that there is.
Site parse_site(std::string_view text, const std::string& name);

/// All that parse_site would refuse, a line each, in the order of the file; nothing when it would take the text. Where
/// a bracket or quotes are left open, that is the last mistake.
std::vector<std::string> site_mistakes(std::string_view text, const std::string& name);

/// Who has set a variable: the user, whom policy.locked binds, or the site (in plugstack.conf).
enum class Authority { user, site };

/// Lets variables BERTH_<SECTION>_<KEY> (BERTH_STORE_PATH for store.path) override `site`. Throws Error naming the
/// variable, also when a user's says something else of a key that is locked or one of [policy].
void apply_environment(Site& site, const std::vector<std::string>& environment, Authority authority = Authority::user);

/// True for a key that policy.locked has, by itself or with its section.
bool is_locked(const Site& site, const std::string& key);

/// The variable for a key: "BERTH_STORE_PATH" for "store.path".
std::string variable_of(const std::string& key);

/// Variables BERTH_SECTION_KEY of `environment` that name no key, as unknown_variables() writes them.
std::vector<std::string> unknown_key_variables(const std::vector<std::string>& environment);

/// A key with its value as the file would have it, which is JSON as well, and where that comes from.
struct ShownKey {
    std::string key, value;
    Site::Origin origin;
};

/// Every key, the registries' last.
std::vector<ShownKey> shown_site(const Site& site);

/// A mistake of the file `name` with the line of `text` that it speaks of, and a caret under the mistake.
std::string shown_mistake(const std::string& message, std::string_view text, const std::string& name);

/// A path of the site file (store.path, data.path) for this user: %U is the uid, %u the name, %h the home directory, %%
/// a percent sign.
std::string path_for(const std::string& path, const Caller& caller);

/// The same for what a container gets, where also %j is the job, %s the step and %n the node's name. Nothing for a path
/// with %j or %s outside of a job.
std::optional<std::string> path_for(const std::string& path, const Caller& caller, const Job& job);

}  // namespace berth::plan
