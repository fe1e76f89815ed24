#include "runtime/images/admitted.hh"

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/once.hh"
#include "runtime/store/extracted.hh"

namespace berth {

namespace {

store::SignatureRecord record_of(const store::Store& store, const Digest& digest) {
    auto text = store.find_document(digest, store::signature_record_file);
    return text ? store::parse_signatures(*text) : store::SignatureRecord{};
}

/// What `berth-pull admit --report` says.
struct Answer {
    std::string text;  ///< a record of store/signature_record, then sums, if they count
    std::string error;

    void take(const std::string& line, Reporter& progress) {
        size_t space = line.find(' ');
        std::string word = line.substr(0, space), rest = space == line.npos ? "" : line.substr(space + 1);
        uint64_t done = 0, total = 0;
        if (word == "error")
            error = printable(rest, 8192);
        else if (word != "progress")
            text += line + "\n";
        else if (size_t end = rest.find(' '); end != rest.npos && parse_number(rest.substr(0, end), UINT64_MAX, done) &&
                                              parse_number(rest.substr(end + 1), UINT64_MAX, total))
            progress(done, total);
    }
};

std::string ask_about_file(const std::string& path, int file, const PullWatch& watch) {
    std::vector<std::string> arguments{"admit", "--report"};
    for (const std::string& word : site_arguments()) arguments.push_back(word);
    arguments.push_back(path);
    std::string image = cat("image ", printable(path, 4096)), work = cat("verifying the signatures of ", image);
    Reporter progress(work, watch);
    Child child(pull_program(), arguments, file);
    Answer answer;
    read_lines(child, watch, [&](const std::string& line) {
        answer.take(line, progress);
        return true;
    });
    int code = child.wait();
    if (!answer.error.empty()) throw Error(answer.error);
    if (code != 0) throw Error(cat(image, ": berth-pull admit ", silent_end(code), "; run it by hand to see more"));
    return std::move(answer.text);
}

/// Sums that are not whole are none.
AdmittedFile admitted_in(const std::string& text, const store::SignatureRecord::Admitted& admitted) {
    AdmittedFile out{{}, store::signers_text(admitted), admitted.rule};
    auto sums = std::make_shared<squash::PartSums>();
    bool has_sums = false;
    for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
        has_sums = sums->take_line(std::string_view(text).substr(at, end - at)) || has_sums;
    if (!has_sums) return out;
    if (!sums->is_whole()) throw Error("berth-pull admit: its answer is cut off; run it by hand to see more");
    out.sums = std::move(sums);
    return out;
}

std::string read_outside(const std::string& path) { return sys::read_file(path); }

/// A store that cannot be written to only makes the next start read the file again.
void remember_file(const store::Store& store, const Digest& key, const std::string& text, const PullWatch& watch) try {
    store::Lease lease = store.lease(key);
    store::remember_verified(store, key, text);
} catch (const Error& problem) {
    if (watch.progress) watch.progress(problem.what());
}

/// What the store remembers of a file that was verified when it, the policy and its keys were what they are. Whatever
/// the file holds by now, what it is read by are the sums of that time.
std::optional<AdmittedFile> remembered_file(const store::Store& store, const Digest& key, const std::string& path,
                                            const plan::Site& site) try {
    store::Lease lease = store.lease(key);  // notes that it is used
    auto text = store::verified_text(store, key);
    if (!text) return std::nullopt;
    store::SignatureRecord record = store::parse_signatures(*text);
    if (!store::is_admitted(record, path, site.policy.signatures, read_outside)) return std::nullopt;
    AdmittedFile out = admitted_in(*text, *record.find(path));
    return out.sums ? std::optional(std::move(out)) : std::nullopt;
} catch (const Error&) {
    return std::nullopt;
}

}  // namespace

bool is_admitted(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                 const plan::Site& site) {
    return site.policy.signatures.empty() ||
           store::is_admitted(record_of(store, digest), store::admitted_name(reference), site.policy.signatures,
                              read_outside);
}

AdmittedFile admit_file(const plan::Site& site, const plan::Caller& caller, const std::string& path, int file,
                        const PullWatch& watch) {
    if (site.policy.signatures.empty()) return {};
    std::string name = printable(path, 4096);
    std::optional<store::Store> store;
    // Nobody gets a store for it.
    if (has_store(site, caller)) store.emplace(open_store(site, caller));
    // As the file is before it is looked at.
    Digest key = store::file_key(file);
    if (store)
        if (auto known = remembered_file(*store, key, name, site)) return std::move(*known);
    std::string text = ask_about_file(path, file, watch);
    store::SignatureRecord record = store::parse_signatures(text);
    if (record.admitted.empty())
        throw Error(cat("image ", name, ": berth-pull admit says nothing of it; run it by hand to see more"));
    AdmittedFile out = admitted_in(text, record.admitted.front());
    if (store && out.sums) remember_file(*store, key, text, watch);
    return out;
}

store::SignatureRecord::Admitted admission_of(const store::Store& store, const Digest& digest,
                                              const plan::Reference& reference) {
    store::SignatureRecord record = record_of(store, digest);
    const auto* found = record.find(store::admitted_name(reference));
    return found == nullptr ? store::SignatureRecord::Admitted{} : *found;
}

}  // namespace berth
