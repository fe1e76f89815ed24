// ${VAR} in the values of an environment file. Pure.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace berth::plan {

/// The value of a variable; nothing when it is not set.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// True for one name of a variable, as --container-env takes it.
bool is_variable_name(std::string_view text);

/// `text` with the values of ${NAME}; of ${NAME:-INSTEAD}, where INSTEAD is for a variable that is empty or not set;
/// and of ${NAME:+WORD}, which is WORD for any other one and else nothing. Without the colon an empty variable is one
/// that is set. $$ stands for a dollar sign, and any other $ for itself: the syntax of CSCS' Environment Definition
/// Files. Values are not looked through again. Throws Error, which does not name the text, for a variable that is not
/// set and for braces that are left open.
std::string expanded(std::string_view text, const VariableLookup& value_of);

}  // namespace berth::plan
