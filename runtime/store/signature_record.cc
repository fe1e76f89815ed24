#include "runtime/store/signature_record.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

constexpr std::string_view first_line = "berth-signatures 1";
constexpr size_t admitted_limit = 256;

/// FNV-1a.
uint64_t hash_of(std::string_view content) {
    uint64_t out = 0xcbf29ce484222325ULL;
    for (char c : content) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return out;
}

/// A value that ends where its line ends, or at a tab.
std::string cell(const std::string& text) { return printable(text, 4096); }

void take_line(const std::string& line, SignatureRecord& out) {
    size_t space = line.find(' ');
    std::string word = line.substr(0, space);
    std::vector<std::string> cells = split(space == line.npos ? "" : std::string_view(line).substr(space + 1), '\t');
    if (word == "admitted" && cells.size() == 2) {
        out.admitted.push_back({cells[0], cells[1]});
        return;
    }
    if (out.admitted.empty()) return;
    if (word == "signer" && cells.size() == 3) out.admitted.back().signers.push_back({cells[0], cells[1], cells[2]});
    if (word == "source" && cells.size() == 2) out.admitted.back().sources.push_back({cells[0], cells[1]});
}

bool is_same(const SignatureRecord::Source& source, const std::function<std::string(const std::string&)>& read) try {
    return content_mark(read(source.path)) == source.mark;
} catch (const Error&) {
    return false;
}

}  // namespace

const SignatureRecord::Admitted* SignatureRecord::find(std::string_view name) const {
    auto found = std::find_if(admitted.begin(), admitted.end(), [&](const Admitted& one) { return one.name == name; });
    return found == admitted.end() ? nullptr : &*found;
}

void SignatureRecord::put(Admitted one) {
    std::erase_if(admitted, [&](const Admitted& other) { return other.name == one.name; });
    if (admitted.size() >= admitted_limit) admitted.erase(admitted.begin());
    admitted.push_back(std::move(one));
}

std::string content_mark(std::string_view content) {
    uint64_t hash = hash_of(content);
    return hex_text({reinterpret_cast<const unsigned char*>(&hash), sizeof hash});
}

std::string admitted_name(const plan::Reference& reference) {
    plan::Reference out = reference;
    out.user.clear();
    if (out.kind == plan::Reference::Kind::registry && !out.tag.empty()) out.digest.reset();
    return cell(out.text());
}

std::string format_signatures(const SignatureRecord& record) {
    std::string out = cat(first_line, "\n");
    for (const SignatureRecord::Admitted& one : record.admitted) {
        out += cat("admitted ", cell(one.name), "\t", cell(one.rule), "\n");
        for (const SignatureRecord::Signer& signer : one.signers)
            out += cat("signer ", cell(signer.key), "\t", cell(signer.from), "\t", cell(signer.name), "\n");
        for (const SignatureRecord::Source& source : one.sources)
            out += cat("source ", cell(source.mark), "\t", cell(source.path), "\n");
    }
    return out;
}

SignatureRecord parse_signatures(std::string_view text) {
    SignatureRecord out;
    std::vector<std::string> lines = split(text, '\n');
    if (lines[0] != first_line) return out;
    for (size_t i = 1; i < lines.size(); ++i) take_line(lines[i], out);
    return out;
}

std::string signers_text(const SignatureRecord::Admitted& admitted) {
    std::string out;
    for (const SignatureRecord::Signer& one : admitted.signers)
        out += cat(out.empty() ? "" : ", ", one.key, " (", one.from, ")",
                   one.name.empty() ? " for no name" : " for " + one.name);
    return out;
}

bool is_admitted(const SignatureRecord& record, const std::string& name, const std::string& policy,
                 const std::function<std::string(const std::string&)>& read) {
    const SignatureRecord::Admitted* one = record.find(name);
    return one != nullptr && !one->sources.empty() && one->sources[0].path == policy &&
           std::all_of(one->sources.begin(), one->sources.end(),
                       [&](const SignatureRecord::Source& source) { return is_same(source, read); });
}

}  // namespace berth::store
