#include "runtime/trust/judge.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/trust/signature/gpg.hh"
#include "runtime/trust/signature/payload.hh"

namespace berth::trust {

namespace {

using Kind = Requirement::Kind;

/// Why one signature does not do.
class NotThis : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

std::string asked(const Subject& subject) { return subject.name ? subject.name->text() : subject.text; }

/// What is signed is the manifest that was asked for, by a name that the policy takes.
void check_claim(const Claim& claim, const Requirement& requirement, const Candidate& image) {
    if (claim.manifest != image.manifest) throw NotThis(cat("is for another manifest, ", claim.manifest));
    if (!matches(requirement.identity, image.subject.name, claim.name))
        throw NotThis(cat("is for the name \"", printable(claim.name), "\", and ", describe(requirement.identity),
                          " takes no such for ", printable(asked(image.subject), 1024)));
}

/// That one of `keys` which has signed `message`; never null. The signature is looked at before anything it covers.
const PublicKey* signing_key(const std::vector<PublicKey>& keys, std::string_view message,
                             const std::vector<std::string>& signatures) {
    for (const PublicKey& key : keys)
        for (const std::string& signature : signatures)
            if (key.verifies(message, signature)) return &key;
    throw NotThis("is by another key");
}

Signer signer_of(const PublicKey& key, const std::string& name) { return {key.fingerprint(), key.name(), name}; }

Signer check_payload(const Signature& signature, const std::vector<PublicKey>& keys, const Requirement& requirement,
                     const Candidate& image) {
    auto bytes = oci::decode_base64(signature.signature);
    if (!bytes) throw NotThis("is not base64");
    const PublicKey& key = *signing_key(keys, signature.content, {*bytes});
    Claim claim = parse_payload(signature.content, PayloadKind::cosign, "its payload");
    check_claim(claim, requirement, image);
    return signer_of(key, claim.name);
}

/// Names are looked for among the subjects that are this image.
Signer check_statement(const std::string& text, const PublicKey& key, const Requirement& requirement,
                       const Candidate& image) {
    Statement statement = parse_statement(text, "its statement");
    std::string problem = "is for another manifest";
    for (const Statement::Subject& subject : statement.subjects) {
        if (subject.digest != image.manifest) continue;
        if (subject.name.empty() && image.unnamed_allowed) return signer_of(key, "");
        if (!subject.name.empty() && matches(requirement.identity, image.subject.name, subject.name))
            return signer_of(key, subject.name);
        problem = subject.name.empty() ? "names no image (policy.signatures_unnamed would take it)"
                                       : cat("is for the name \"", printable(subject.name), "\"");
    }
    throw NotThis(problem);
}

Signer check_bundle(const Signature& signature, const std::vector<PublicKey>& keys, const Requirement& requirement,
                    const Candidate& image) {
    Bundle bundle = parse_bundle(signature.content, "the bundle");
    if (!bundle.message)
        return check_statement(bundle.statement, *signing_key(keys, bundle.signed_bytes, bundle.signatures),
                               requirement, image);
    if (!image.unnamed_allowed) throw NotThis("names no image (policy.signatures_unnamed would take it)");
    if (*bundle.message != image.manifest) throw NotThis("is for other bytes than the manifest");
    return signer_of(*signing_key(keys, image.document, bundle.signatures), "");
}

Signer check_gpg(const Signature& signature, const std::vector<std::string>& keyrings, const Requirement& requirement,
                 const Candidate& image, const Means& means) {
    Means::GpgText signed_text = means.gpg(keyrings, signature.content);
    Claim claim = parse_payload(signed_text.text, PayloadKind::gpg, "its payload");
    check_claim(claim, requirement, image);
    std::string name = requirement.keys.files.empty() ? "keyData" : requirement.keys.files.front();
    return {signed_text.key, name, claim.name};
}

/// A mistake of the site's, which no image can mend.
std::string read_key(const std::string& path, const Means& means) try {
    return means.read(path);
} catch (const Error& problem) {
    throw Error(cat("reading a key of the signature policy: ", problem.what()));
}

std::vector<std::pair<std::string, std::string>> key_texts(const KeySources& keys, const Means& means) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const std::string& path : keys.files) out.emplace_back(printable(path, 4096), read_key(path, means));
    for (const std::string& data : keys.data) out.emplace_back("keyData", data);
    return out;
}

std::vector<std::string> keyrings_of(const KeySources& keys, const Means& means) {
    std::vector<std::string> out;
    for (const auto& [name, text] : key_texts(keys, means)) out.push_back(keyring_packets(text, name));
    return out;
}

std::string listed(const std::vector<std::string>& reasons) {
    constexpr size_t shown = 3;
    std::string out;
    for (size_t i = 0; i < std::min(reasons.size(), shown); ++i) out += cat(i == 0 ? "" : "; ", reasons[i]);
    return reasons.size() > shown ? cat(out, "; and ", reasons.size() - shown, " more") : out;
}

std::string keys_text(const KeySources& keys) {
    std::string out;
    for (const std::string& path : keys.files) out += cat(out.empty() ? "" : ", ", printable(path, 1024));
    return out.empty() ? "the key in the policy" : out;
}

std::string wanted(const Requirement& requirement) {
    return cat(requirement.kind == Kind::signed_by ? "a GPG signature" : "a sigstore signature", " by ",
               keys_text(requirement.keys), " for ", describe(requirement.identity));
}

/// What a signer, or the reader of the message, can do.
std::string refusal(const Requirement& requirement, const std::vector<std::string>& reasons) {
    const char* remedy = requirement.kind == Kind::signed_by
                             ? "; podman image sign makes one, for a lookaside folder of registries.d"
                             : "; berth sign --key KEY IMAGE makes one";
    if (reasons.empty()) return cat("wants ", wanted(requirement), ", and the image has none", remedy);
    return cat("wants ", wanted(requirement), ", and none of ", reasons.size(), " fits: ", listed(reasons));
}

/// One requirement that wants signatures of `kinds`.
template <typename Check>
std::optional<Signer> first_accepted(const std::vector<Signature>& signatures, bool gpg, const Check& check,
                                     std::vector<std::string>& reasons) {
    for (const Signature& signature : signatures) {
        if ((signature.kind == Signature::Kind::gpg) != gpg) continue;
        try {
            return check(signature);
        } catch (const NotThis& reason) {
            reasons.push_back(cat(signature.source, " ", reason.what()));
        } catch (const Error& reason) {
            reasons.push_back(cat(signature.source, ": ", reason.what()));
        }
    }
    return std::nullopt;
}

std::optional<Signer> find_signer(const Requirement& requirement, const Candidate& image,
                                  const std::vector<Signature>& signatures, const Means& means,
                                  std::vector<std::string>& reasons) {
    if (requirement.kind == Kind::signed_by) {
        std::vector<std::string> keyrings = keyrings_of(requirement.keys, means);
        auto check = [&](const Signature& one) { return check_gpg(one, keyrings, requirement, image, means); };
        return first_accepted(signatures, true, check, reasons);
    }
    // All of them, so that a site learns of a broken key before it needs it.
    std::vector<PublicKey> keys;
    for (const auto& [name, text] : key_texts(requirement.keys, means)) keys.emplace_back(text, name);
    auto check = [&](const Signature& one) {
        return one.kind == Signature::Kind::bundle ? check_bundle(one, keys, requirement, image)
                                                   : check_payload(one, keys, requirement, image);
    };
    return first_accepted(signatures, false, check, reasons);
}

/// A SIF file has its signatures in itself, and they name no image. Empty when the requirement holds.
std::string problem_with_sif(const Requirement& requirement, const Means& means, Verdict& out) {
    if (requirement.kind != Kind::signed_by)
        return "wants a sigstore signature, which SIF files do not have; write signedBy with keyType GPGKeys";
    if (requirement.identity.kind != SignedIdentity::Kind::match_repo_digest_or_exact)
        return cat("wants a signature for ", describe(requirement.identity),
                   ", and those in SIF files name no image; leave signedIdentity out");
    std::vector<std::string> keyrings = keyrings_of(requirement.keys, means);
    std::string from = requirement.keys.files.empty() ? "keyData" : requirement.keys.files.front();
    try {
        for (const std::string& key : means.sif(keyrings)) out.signers.push_back({key, from, ""});
    } catch (const Error& problem) {
        return cat("wants all that is in the file signed by ", keys_text(requirement.keys), ": ", problem.what(),
                   "; apptainer sign adds a signature, and apptainer verify shows those that there are");
    }
    return {};
}

/// Empty when the requirement holds.
std::string problem_with(const Requirement& requirement, const Candidate& image,
                         const std::vector<Signature>& signatures, const Means& means, Verdict& out) {
    switch (requirement.kind) {
        case Kind::accept_anything:
            return {};
        case Kind::reject:
            return "refuses such images (reject); use an image of another place, or ask the site";
        case Kind::unsupported:
            return cat("wants ", printable(requirement.name), ", which is not supported yet");
        default:
            break;
    }
    if (means.sif) return problem_with_sif(requirement, means, out);
    std::vector<std::string> reasons;
    auto signer = find_signer(requirement, image, signatures, means, reasons);
    if (!signer) return refusal(requirement, reasons);
    out.signers.push_back(std::move(*signer));
    return {};
}

bool has_kind(const Requirements& requirements, Kind kind) {
    return std::any_of(requirements.begin(), requirements.end(),
                       [&](const Requirement& one) { return one.kind == kind; });
}

}  // namespace

Verdict judge(const Rule& rule, const Candidate& image, const std::vector<Signature>& signatures, const Means& means) {
    Verdict out;
    out.rule = rule.place;
    for (const Requirement& requirement : *rule.requirements) {
        out.reason = problem_with(requirement, image, signatures, means, out);
        if (!out.reason.empty()) return out;
    }
    out.allowed = true;
    return out;
}

bool wants_sigstore(const Requirements& requirements) { return has_kind(requirements, Kind::sigstore_signed); }
bool wants_gpg(const Requirements& requirements) { return has_kind(requirements, Kind::signed_by); }
bool refuses_all(const Requirements& requirements) {
    return has_kind(requirements, Kind::reject) || has_kind(requirements, Kind::unsupported);
}

std::vector<std::string> key_files(const Requirements& requirements) {
    std::vector<std::string> out;
    for (const Requirement& one : requirements) out.insert(out.end(), one.keys.files.begin(), one.keys.files.end());
    return out;
}

}  // namespace berth::trust
