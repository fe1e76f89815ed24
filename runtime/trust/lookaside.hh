// Where GPG signatures lie: the folders that containers-registries.d(5) names. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/trust/policy/policy.hh"

namespace berth::trust {

/// The files of registries.d together. Only what says where signatures are read is kept.
struct Lookaside {
    std::optional<std::string> fallback;         ///< "default-docker"
    std::map<std::string, std::string> by_scope;  ///< URL by scope, as in policies
};

struct NamedText {
    std::string name;
    std::string text;
};

/// Throws Error naming the file for YAML that is none, for other types, and for a scope that two files have.
Lookaside parse_lookaside(const std::vector<NamedText>& files);

/// The URL below which the signatures of the subject's repository lie: "URL/PATH"; the built-in folder where nothing is
/// said.
std::string lookaside_of(const Lookaside& lookaside, const Subject& subject, const std::string& built_in);

/// "URL/PATH@sha256=HEX/signature-N", N from 1.
std::string signature_url(const std::string& base, const Digest& manifest, size_t number);

/// The path of file://; nothing for another scheme.
std::optional<std::string> path_of_url(std::string_view url);

}  // namespace berth::trust
