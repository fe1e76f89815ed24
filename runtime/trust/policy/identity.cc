// Whether a signature is one for the image that was asked for.
#include "runtime/base/text.hh"
#include "runtime/trust/policy/policy.hh"

namespace berth::trust {

namespace {

using Kind = SignedIdentity::Kind;

bool same_exact(const ImageName& wanted, const ImageName& claimed) {
    return !wanted.is_name_only() && !claimed.is_name_only() && wanted.text() == claimed.text();
}

/// The manifest itself is compared with the signature's digest elsewhere: a digest that was asked for needs no name
/// besides the repository's.
bool same_repo_digest_or_exact(const ImageName& wanted, const ImageName& claimed) {
    if (claimed.is_name_only() || wanted.is_name_only()) return false;
    return wanted.tag.empty() ? wanted.name() == claimed.name() : wanted.text() == claimed.text();
}

bool has_prefix(const std::string& name, const std::string& prefix) {
    return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '/');
}

/// Nothing where the new name is none in its full form.
std::optional<ImageName> remapped(const ImageName& wanted, const SignedIdentity& identity) {
    if (!has_prefix(wanted.name(), identity.name)) return wanted;
    std::string text = identity.signed_name + wanted.text().substr(identity.name.size());
    auto name = parse_image_name(text);
    return name && name->text() == text ? name : std::nullopt;
}

/// The name that the policy itself gives.
bool matches_given(const SignedIdentity& identity, const ImageName& claimed) {
    auto given = parse_image_name(identity.name);
    if (!given) return false;
    return identity.kind == Kind::exact_reference ? same_exact(*given, claimed) : given->name() == claimed.name();
}

bool matches_asked(const SignedIdentity& identity, const ImageName& wanted, const ImageName& claimed) {
    if (identity.kind == Kind::match_exact) return same_exact(wanted, claimed);
    if (identity.kind == Kind::match_repository) return wanted.name() == claimed.name();
    if (identity.kind == Kind::match_repo_digest_or_exact) return same_repo_digest_or_exact(wanted, claimed);
    auto other = remapped(wanted, identity);
    return other && same_repo_digest_or_exact(*other, claimed);
}

}  // namespace

bool matches(const SignedIdentity& identity, const std::optional<ImageName>& wanted, std::string_view claimed) {
    auto name = parse_image_name(claimed);
    if (!name) return false;
    if (identity.kind == Kind::exact_reference || identity.kind == Kind::exact_repository)
        return matches_given(identity, *name);
    return wanted && matches_asked(identity, *wanted, *name);
}

std::string describe(const SignedIdentity& identity) {
    switch (identity.kind) {
        case Kind::match_exact: return "matchExact";
        case Kind::match_repository: return "matchRepository";
        case Kind::exact_reference: return "exactReference " + printable(identity.name, 1024);
        case Kind::exact_repository: return "exactRepository " + printable(identity.name, 1024);
        case Kind::remap_identity: return "remapIdentity to " + printable(identity.signed_name, 1024);
        default: return "matchRepoDigestOrExact";
    }
}

}  // namespace berth::trust
