// What the store remembers of an image's signatures, so that a start needs neither network nor cryptography: under
// which names a policy has let the image run, by whose signature, and which files the policy was read from. Pure.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/reference.hh"

namespace berth::store {

/// Of an image's folder: this record, and the signatures themselves for berth-pull to look at again.
inline constexpr const char* signature_record_file = "signatures";
inline constexpr const char* attached_signatures_file = "signatures.json";

struct SignatureRecord {
    /// A file that the decision was read from: the policy, then the keys that it names.
    struct Source {
        std::string mark;  ///< content_mark() of what it held
        std::string path;
    };
    struct Signer {
        std::string key;   ///< fingerprint
        std::string from;  ///< the policy's key file, or "keyData"
        std::string name;  ///< that was signed; may be empty
    };
    /// A name under which the image may run.
    struct Admitted {
        std::string name;  ///< admitted_name()
        std::string rule;  ///< place in the policy
        std::vector<Signer> signers = {};
        std::vector<Source> sources = {};
    };
    std::vector<Admitted> admitted;

    /// Null when there is none.
    const Admitted* find(std::string_view name) const;
    /// Replaces what is there of that name.
    void put(Admitted one);
};

/// 64 bits that another content does not have by chance. Nothing is protected by it: who can write the record can write
/// the image as well.
std::string content_mark(std::string_view content);

/// The name by which a policy looks at an image: a tag counts where there is a digest too.
std::string admitted_name(const plan::Reference& reference);

std::string format_signatures(const SignatureRecord& record);
/// Empty for another version; lines that are not understood are left out, so that the signatures are looked at again.
SignatureRecord parse_signatures(std::string_view text);

/// The signers as one text, for events and listings: "KEY (FILE) for NAME, ...".
std::string signers_text(const SignatureRecord::Admitted& admitted);

/// Whether the policy at `policy` has let the image run under the name, and it and its keys are still what they were.
/// `read` gives a file's content, and throws Error.
bool is_admitted(const SignatureRecord& record, const std::string& name, const std::string& policy,
                 const std::function<std::string(const std::string&)>& read);

}  // namespace berth::store
