// The site file /etc/berth/berth.conf (TOML) into the Site struct. Pure: text in, value out.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/request.hh"

namespace berth::plan {

/// Parses `text`; unknown keys, wrong types and values are refused with Error naming `name`, line and column.
Site parse_site(std::string_view text, const std::string& name);

/// Lets the user's variables BERTH_<SECTION>_<KEY> (BERTH_STORE_PATH for store.path) override `site`. Throws Error naming the variable.
void apply_environment(Site& site, const std::vector<std::string>& environment);

/// Bytes of "512M", "2G", "1048576"; binary units K M G T. Throws Error naming `setting`.
uint64_t parse_size(std::string_view text, std::string_view setting);

/// A path of the site file (store.path, data.path) for this user: %U is the uid, %u the name, %h the home directory, %% a percent sign.
std::string path_for(const std::string& path, const Caller& caller);

}  // namespace berth::plan
