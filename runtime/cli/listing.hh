// What the commands that look at the store share: opening it, short digests, times, JSON.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/json_text.hh"
#include "runtime/config/site.hh"
#include "runtime/store/inventory.hh"

namespace berth::cli {

/// The settings of the site file with the caller's variables over them.
plan::Site site_of_caller();

/// The store of whoever calls; a line on standard error says when it is a new one in the home.
store::Store open_callers_store(const plan::Site& site);

/// The same by site file and environment.
store::Store store_of_caller();

/// The first 12 digits of a digest.
std::string short_digest(const std::string& digest);

/// "REGISTRY/NAME:TAG" of each tag.
std::vector<std::string> tag_names(const store::StoredImage& image);
std::vector<std::string> tag_names(const store::ComingImage& image);

/// "2026-11-21 06:30" in local time; as ISO 8601 in UTC for programs.
std::string shown_time(int64_t seconds);
std::string iso_time(int64_t seconds);

/// A JSON list of strings, see json_text().
using berth::json_text;
std::string json_list(const std::vector<std::string>& texts);

/// The image that `text` means in the inventory; throws Error when none is here.
const store::StoredImage& find_image(const store::Inventory& inventory, const std::string& text,
                                     const store::Store& store);

/// Replaces this process by berth-pull with these arguments.
[[noreturn]] void exec_pull_program(std::vector<std::string> arguments);

/// The words of `berth-pull WORD --store ... ARGUMENTS`: for what needs more than `berth` is linked with.
std::vector<std::string> pull_program_words(const std::string& word, const plan::Site& site, const store::Store& store,
                                            const std::vector<std::string>& arguments);

/// Replaces this process by that.
[[noreturn]] void become_pull_program(const std::string& word, const std::vector<std::string>& arguments);

}  // namespace berth::cli
