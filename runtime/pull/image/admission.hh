// Whether an image may run by the site's signature policy: what the store remembers, else the signatures themselves.
#pragma once
#include <optional>
#include <string>

#include "runtime/pull/image/documents.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/store/store.hh"
#include "runtime/trust/judge.hh"
#include "runtime/trust/sif_contents.hh"

namespace berth::pull {

class Admission {
  public:
    Admission(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter);

    /// Throws Error, one line with the rule that refuses and what would satisfy it, unless the manifest may run under
    /// the reference's name. `document` is the manifest. Does no request where the store remembers enough.
    void check(const Digest& manifest, const std::string& document);
    /// Signatures of this type that another node of the step has told. They are looked at before any place is asked,
    /// and are worth what their keys make them. A note when they cannot be read.
    void offer(const nodes::DocumentList& told, std::string_view type);
    /// What check() has looked at last.
    const std::vector<trust::Signature>& signatures() const { return signatures_; }
    /// Writes what check() found into the image's folder, once the image is published.
    void remember(const Digest& manifest) const;
    /// Who has signed, and the rule; nothing before check(), and where no policy is.
    const std::optional<store::SignatureRecord::Admitted>& admitted() const { return admitted_; }

  private:
    bool is_remembered(const Digest& manifest);
    void judge_with(const Digest& manifest, const std::string& document);
    void fetch(const trust::Requirements& requirements, const trust::Candidate& image,
               const std::function<bool()>& enough);
    std::string lookaside_address(const trust::Subject& subject) const;

    const store::Store& store_;
    const plan::Reference& reference_;
    const Options& options_;
    Meter& meter_;
    std::vector<trust::Signature> signatures_, offered_;
    std::vector<std::string> problems_;
    std::optional<store::SignatureRecord::Admitted> admitted_;
    bool is_new_ = false;  ///< the store does not have it yet
};

/// Why an image file or directory may run.
struct FileVerdict {
    store::SignatureRecord::Admitted admitted;
    std::optional<squash::PartSums> sums = {};  ///< of a SIF file whose signatures counted
};

/// Throws Error unless the policy lets the image file or directory `file` run, whose real path this is. Of files, only
/// SIF files have signatures; others need a rule that wants none. Tells `progress` of what is read.
FileVerdict check_file(const SignatureRules& rules, const std::string& path, int file,
                       trust::SifContents::Progress progress);

/// The image as policies find it; paths are followed to where they lead.
trust::Subject policy_subject(const plan::Reference& reference);

}  // namespace berth::pull
