#include "runtime/images/admitted.hh"

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/host/run_program.hh"

namespace berth {

namespace {

constexpr auto patience = std::chrono::seconds(30);

store::SignatureRecord record_of(const store::Store& store, const Digest& digest) {
    auto text = store.find_document(digest, store::signature_record_file);
    return text ? store::parse_signatures(*text) : store::SignatureRecord{};
}

std::string without_name(const std::string& line) {
    constexpr std::string_view name = "berth: ";
    return line.starts_with(name) ? line.substr(name.size()) : line;
}

}  // namespace

bool is_admitted(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                 const plan::Site& site) {
    return site.policy.signatures.empty() ||
           store::is_admitted(record_of(store, digest), store::admitted_name(reference), site.policy.signatures,
                              [](const std::string& path) { return sys::read_file(path); });
}

void admit_file(const plan::Site& site, const std::string& path) {
    if (site.policy.signatures.empty()) return;
    std::vector<std::string> arguments{"admit"};
    for (const std::string& word : site_arguments()) arguments.push_back(word);
    arguments.push_back(path);
    ProgramAnswer answer = run_program(pull_program(), arguments, "", patience);
    if (answer.code == 0) return;
    throw Error(answer.complaint.empty()
                    ? cat("image ", printable(path, 4096), ": berth-pull admit ", silent_end(answer.code),
                          "; run it by hand to see more")
                    : without_name(answer.complaint));
}

store::SignatureRecord::Admitted admission_of(const store::Store& store, const Digest& digest,
                                              const plan::Reference& reference) {
    store::SignatureRecord record = record_of(store, digest);
    const auto* found = record.find(store::admitted_name(reference));
    return found == nullptr ? store::SignatureRecord::Admitted{} : *found;
}

}  // namespace berth
