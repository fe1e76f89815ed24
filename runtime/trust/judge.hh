// Whether an image may run by a policy: each requirement against the signatures that were found. What is outside of the
// process (key files, gpgv) comes as functions.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/trust/policy/policy.hh"
#include "runtime/trust/signature/bundle.hh"
#include "runtime/trust/signature/key.hh"

namespace berth::trust {

/// As it was attached. Nothing in it is trusted.
struct Signature {
    enum class Kind { payload, bundle, gpg };
    Kind kind = Kind::payload;
    std::string content;    ///< the payload, the bundle, or GPG's message
    std::string signature;  ///< base64, of a payload
    std::string source;     ///< where it was found, for messages
};

/// Who has signed, and which name.
struct Signer {
    std::string key;       ///< fingerprint
    std::string key_name;  ///< the policy's file, or "keyData"
    std::string name;      ///< the signed name; empty where a bundle has none
};

/// What is outside.
struct Means {
    std::function<std::string(const std::string& path)> read;  ///< throws Error
    /// The text that GPG's message signs, and by which primary key of these keyrings. Throws Error.
    struct GpgText {
        std::string text;
        std::string key;
    };
    std::function<GpgText(const std::vector<std::string>& keyrings, const std::string& message)> gpg;
    /// The primary keys, of these keyrings, by whose signatures all that is in the SIF file is what was signed. Throws
    /// Error. None for other images.
    std::function<std::vector<std::string>(const std::vector<std::string>& keyrings)> sif = {};
};

/// The image whose signatures are looked at.
struct Candidate {
    Subject subject;
    Digest manifest;
    std::string document = {};  ///< the manifest itself, whose digest that is: some bundles sign it
    /// cosign 3 writes bundles that name no image: whether they count as naming the one that was asked for.
    bool unnamed_allowed = false;
};

struct Verdict {
    bool allowed = false;
    std::string reason;           ///< why not, and what would do
    std::string rule;             ///< the place in the policy
    std::vector<Signer> signers;  ///< one for each requirement that wants one
};

/// Throws Error only where a key of the policy cannot be read: that is the site's mistake.
Verdict judge(const Rule& rule, const Candidate& image, const std::vector<Signature>& signatures, const Means& means);

/// Whether the rule can hold at all without a signature, and whether it wants some: nothing need be fetched otherwise.
bool wants_sigstore(const Requirements& requirements);
bool wants_gpg(const Requirements& requirements);
bool refuses_all(const Requirements& requirements);

/// The files of keys that the requirements name.
std::vector<std::string> key_files(const Requirements& requirements);

}  // namespace berth::trust
