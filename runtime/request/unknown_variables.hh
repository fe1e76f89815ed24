// Variables that begin with BERTH_ and mean nothing: who writes BERTH_CONTAINER_IMAG would run outside of a container.
// Pure.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// The sections of berth.conf. A variable BERTH_SECTION_KEY is the business of who reads that file, which the plugin
/// does not.
std::span<const std::string_view> site_sections();

/// True for BERTH_SECTION_KEY, whatever the key is.
bool is_of_section(std::string_view variable);

/// True for the variable of an option, for others that Berth reads or sets, and for those of this project's own tests.
bool is_known_variable(const std::string& name);

/// Those of `environment` (NAME=VALUE) that begin with BERTH_ and name no option, no section and nothing else of
/// Berth's, each with what may be meant: "BERTH_CONTAINER_IMAG (did you mean BERTH_CONTAINER_IMAGE?)". What ends with
/// an = is as good as not set.
std::vector<std::string> unknown_variables(const std::vector<std::string>& environment);

/// "NAME (did you mean NAME?)", or the name alone.
std::string with_meant(std::string_view variable, const std::vector<std::string>& known);

/// One line about such variables; empty where there is none.
std::string unknown_variables_note(const std::vector<std::string>& variables);

}  // namespace berth::plan
