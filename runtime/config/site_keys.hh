// The keys of the site file: type, what each does to the settings, and how its value is written. Inside of this folder
// only: TOML is nobody else's business.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site.hh"
#include "runtime/config/toml.hh"

namespace berth::plan {

/// A key of the file: the TOML type of its value, and what it does to the settings.
struct Key {
    enum class Type { text, flag, number };
    using Setter = std::function<void(Site&, const toml::node&, const std::string& key, const std::string& name)>;
    Type type;
    Setter set;                                 ///< throws Error naming file, line and column
    std::function<std::string(const Site&)> show;  ///< the value as the file has it, which is JSON as well
    /// Users' variables may not change it unless policy.unlocked lists it: it says where programs and files for
    /// containers come from, which the site trusts.
    bool locked = false;
};

/// Every key of the file but the registries' tables.
const std::map<std::string, Key>& keys();

template <typename T>
T value_of(const toml::node& node, const std::string& key, const std::string& name, const char* type) {
    auto value = node.value_exact<T>();
    if (!value) throw Error(cat(place(name, node.source()), ": ", key, " must be ", type));
    return *value;
}

}  // namespace berth::plan
