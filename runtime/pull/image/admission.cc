#include "runtime/pull/image/admission.hh"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/image/signature_sources.hh"
#include "runtime/trust/gpgv.hh"
#include "runtime/trust/remembered.hh"
#include "runtime/trust/sif.hh"

namespace berth::pull {

namespace {

using Kind = plan::Reference::Kind;
using Admitted = store::SignatureRecord::Admitted;

std::string real_path(const std::string& path) {
    std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    if (!real) throw SysError(cat("following ", printable(path, 4096)));
    return real.get();
}

std::string read_outside(const std::string& path) { return sys::read_file(path); }

/// Images of the daemons have names as those of registries do, and no signatures.
trust::Subject daemon_subject(const plan::Reference& reference) {
    if (reference.kind == Kind::podman) return trust::subject_of("containers-storage", "");
    trust::Subject out = trust::subject_of(trust::name_of(reference));
    out.transport = "docker-daemon";
    out.name.reset();
    return out;
}

/// Of the site's account where berth runs as root, as the other programs have it.
std::string built_in_lookaside() {
    if (::geteuid() == 0) return "file:///var/lib/containers/sigstore";
    return cat("file://", value_in(environment_of_this_process(), "HOME"), "/.local/share/containers/sigstore");
}

/// A file's own transport, where the reference implementation has one. Squashfs files and directories have "dir".
std::string transport_of(int file) {
    return S_ISREG(sys::stat_of(file, "an image").st_mode) && squash::is_sif(file) ? "sif" : "dir";
}

/// By whose signatures all that is in the file is what was signed, each once.
std::vector<std::string> signers_of(trust::SifContents& contents, const std::vector<std::string>& keyrings) {
    std::vector<std::string> out;
    for (const trust::SifSignature& one :
         trust::verify_sif(contents, "", {.one_is_enough = true}, keyrings, trust::check_by_gpgv))
        if (std::ranges::find(out, one.key) == out.end()) out.push_back(one.key);
    return out;
}

trust::Policy read_policy(const std::string& file, const std::string& text) {
    return trust::parse_policy(text, printable(file, 4096));
}

[[noreturn]] void throw_refusal(const std::string& image, const SignatureRules& rules, const trust::Verdict& verdict,
                                const std::string& problem) {
    throw Error(cat("image ", printable(image, 4096), ": ", rules.origin, ": ", printable(rules.policy, 4096), ": ",
                    verdict.rule, " ", verdict.reason, problem.empty() ? "" : " (" + problem + ")"));
}

std::vector<store::SignatureRecord::Source> sources_of(const std::string& policy, const std::string& text,
                                                       const trust::Requirements& requirements) {
    std::vector<store::SignatureRecord::Source> out{{store::content_mark(text), policy}};
    for (const std::string& path : trust::key_files(requirements))
        out.push_back({store::content_mark(read_outside(path)), path});
    return out;
}

Admitted admitted_by(const std::string& name, const trust::Verdict& verdict,
                     std::vector<store::SignatureRecord::Source> sources) {
    Admitted out{name, verdict.rule, {}, std::move(sources)};
    for (const trust::Signer& one : verdict.signers) out.signers.push_back({one.key, one.key_name, one.name});
    return out;
}

}  // namespace

trust::Subject policy_subject(const plan::Reference& reference) {
    switch (reference.kind) {
        case Kind::registry: return trust::subject_of(trust::name_of(reference));
        case Kind::oci: return trust::subject_of("oci", real_path(reference.path));
        case Kind::oci_archive: return trust::subject_of("oci-archive", real_path(reference.path));
        case Kind::docker_archive: return trust::subject_of("docker-archive", real_path(reference.path));
        default: return daemon_subject(reference);
    }
}

Admission::Admission(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter)
    : store_(store), reference_(reference), options_(options), meter_(meter) {}

void Admission::offer(const nodes::DocumentList& told, std::string_view type) try {
    const nodes::ImageDocument* found = nodes::find_type(told, type);
    if (found != nullptr) offered_ = trust::parse_remembered(found->bytes, "the signatures that another node tells");
} catch (const Error& problem) {
    meter_.note(problem.what());
}

void Admission::check(const Digest& manifest, const std::string& document) {
    if (options_.signatures.policy.empty() || admitted_) return;
    if (!is_remembered(manifest)) judge_with(manifest, document);
}

bool Admission::is_remembered(const Digest& manifest) {
    auto text = store_.find_document(manifest, store::signature_record_file);
    if (!text) return false;
    store::SignatureRecord record = store::parse_signatures(*text);
    std::string name = store::admitted_name(reference_);
    if (!store::is_admitted(record, name, options_.signatures.policy, read_outside)) return false;
    admitted_ = *record.find(name);
    return true;
}

void Admission::judge_with(const Digest& manifest, const std::string& document) {
    const std::string& file = options_.signatures.policy;
    std::string text = read_outside(file);
    trust::Policy policy = read_policy(file, text);
    trust::Candidate image{policy_subject(reference_), manifest, document, options_.signatures.unnamed};
    trust::Rule rule = trust::rule_for(policy, image.subject);
    trust::Verdict verdict;
    auto enough = [&] {
        verdict = trust::judge(rule, image, signatures_, {read_outside, trust::check_by_gpgv});
        return verdict.allowed;
    };
    signatures_ = remembered_signatures(store_, manifest);
    if (!enough() && !offered_.empty()) {
        signatures_ = offered_;
        enough();
    }
    if (!verdict.allowed && !trust::refuses_all(*rule.requirements)) fetch(*rule.requirements, image, enough);
    if (!verdict.allowed)
        throw_refusal(reference_.text(), options_.signatures, verdict, problems_.empty() ? "" : problems_.front());
    admitted_ = admitted_by(store::admitted_name(reference_), verdict, sources_of(file, text, *rule.requirements));
    is_new_ = true;
}

/// One place after the other, until `enough`. What is remembered counts no more: the registry may have others by now.
void Admission::fetch(const trust::Requirements& requirements, const trust::Candidate& image,
                      const std::function<bool()>& enough) {
    if (reference_.kind != Kind::registry) return;
    meter_.begin(Phase::asking, cat("asking ", reference_.registry, " for the signatures of image ",
                                    printable(reference_.text(), 1024)));
    oci::RegistryOptions options = options_.registry;
    options.notice = nullptr;
    oci::Registry registry(reference_, options);
    Problem problem = [&](const std::string& line) { problems_.push_back(line); };
    signatures_.clear();
    auto add = [&](std::vector<trust::Signature> more) {
        signatures_.insert(signatures_.end(), std::make_move_iterator(more.begin()),
                           std::make_move_iterator(more.end()));
        return enough();
    };
    if (trust::wants_gpg(requirements) &&
        add(lookaside_signatures(lookaside_address(image.subject), image.manifest, options)))
        return;
    if (!trust::wants_sigstore(requirements)) return;
    if (!add(tagged_signatures(registry, image.manifest, problem)))
        add(referring_signatures(registry, image.manifest, problem));
}

std::string Admission::lookaside_address(const trust::Subject& subject) const {
    const std::string& policy = options_.signatures.policy;
    trust::Lookaside lookaside = read_lookaside(policy.substr(0, policy.rfind('/')) + "/registries.d");
    return trust::lookaside_of(lookaside, subject, built_in_lookaside());
}

FileVerdict check_file(const SignatureRules& rules, const std::string& path, int file,
                       trust::SifContents::Progress progress) {
    if (rules.policy.empty()) return {{path, "no policy"}};
    std::string text = read_outside(rules.policy);
    trust::Policy policy = read_policy(rules.policy, text);
    // Of no manifest: the signatures of a SIF file are in it, and other files have none.
    trust::Candidate image{trust::subject_of(transport_of(file), real_path(path)),
                           Digest::from_hex(std::string(64, '0')).value()};
    trust::Rule rule = trust::rule_for(policy, image.subject);
    trust::Means means{read_outside, trust::check_by_gpgv};
    std::optional<trust::SifContents> contents;
    if (image.subject.transport == "sif")
        means.sif = [&](const std::vector<std::string>& keyrings) {
            if (!contents) contents.emplace(file, path, std::move(progress)).make_sums();
            return signers_of(*contents, keyrings);
        };
    trust::Verdict verdict = trust::judge(rule, image, {}, means);
    if (!verdict.allowed) throw_refusal(path, rules, verdict, "");
    FileVerdict out{admitted_by(path, verdict, sources_of(rules.policy, text, *rule.requirements))};
    if (contents) out.sums = contents->sums();
    return out;
}

void Admission::remember(const Digest& manifest) const {
    // A shared store's images are its owner's business.
    if (!admitted_ || !is_new_ || !store_.own().has_manifest(manifest)) return;
    store::SignatureRecord record;
    if (auto text = store_.find_document(manifest, store::signature_record_file))
        record = store::parse_signatures(*text);
    record.put(*admitted_);
    store_.put_document(manifest, store::attached_signatures_file, trust::format_remembered(signatures_));
    store_.put_document(manifest, store::signature_record_file, store::format_signatures(record));
}

}  // namespace berth::pull
