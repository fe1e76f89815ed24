#include "runtime/trust/sif.hh"

#include <algorithm>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/trust/digester.hh"
#include "runtime/trust/signature/sif_statement.hh"

namespace berth::trust {

namespace {

using namespace squash::sif;

constexpr int64_t signature_limit = 256 << 10;
constexpr size_t signatures_limit = 32;  // of a group

class Verifier {
  public:
    Verifier(SifContents& contents, const std::string& what, const SifScope& scope,
             const std::vector<std::string>& keyrings, const decltype(Means::gpg)& check)
        : contents_(contents),
          sif_(contents.objects()),
          prefix_(what.empty() ? "" : cat("verifying ", printable(what, 4096), ": ")),
          scope_(scope),
          keyrings_(keyrings),
          check_(check) {}

    std::vector<SifSignature> all() const {
        std::vector<SifSignature> out;
        if (scope_.object) {
            const Descriptor& object = object_of(*scope_.object);
            if (scope_.older) return of(object.id, cat("object ", *scope_.object), {&object}, {&object}, true);
            return of_group(number(object.group), {&object});
        }
        for (uint32_t group : groups()) {
            std::vector<SifSignature> more = of_group(group, {});
            out.insert(out.end(), more.begin(), more.end());
        }
        return out;
    }

  private:
    using Objects = std::vector<const Descriptor*>;

    [[noreturn]] void refuse(const std::string& why) const { throw Error(cat(prefix_, why)); }
    static uint32_t number(uint32_t group) { return group & ~group_mark; }

    const Descriptor& object_of(uint32_t id) const {
        auto found = std::ranges::find_if(sif_.used, [&](const Descriptor& one) { return one.id == id; });
        if (found == sif_.used.end()) refuse(cat("it has no object ", id));
        if (found->type == type_signature) refuse(cat("object ", id, " is a signature"));
        if (number(found->group) == 0) refuse(cat("object ", id, " is in no group, so that nothing can sign it"));
        return *found;
    }

    /// What is in no group is covered by nothing.
    std::set<uint32_t> groups() const {
        if (scope_.group) return {*scope_.group};
        std::set<uint32_t> out;
        for (const Descriptor& one : sif_.used) {
            uint32_t group = number(one.group), id = one.id;
            if (group == 0 && one.type != type_signature) refuse(cat("object ", id, " is in no group"));
            if (group != 0) out.insert(group);
        }
        if (out.empty()) refuse("there is nothing in it");
        return out;
    }

    /// Signatures of a group, which are about `wanted`, or about all of it.
    std::vector<SifSignature> of_group(uint32_t group, Objects wanted) const {
        Objects members;
        for (const Descriptor& one : sif_.used)
            if (number(one.group) == group) members.push_back(&one);
        if (group == 0 || members.empty()) refuse(cat("it has no group ", group));
        bool is_whole = wanted.empty();
        return of(group_mark | group, cat("group ", group), members, is_whole ? members : wanted, is_whole);
    }

    /// All that are linked to `link`, of the form that counts.
    std::vector<SifSignature> of(uint32_t link, const std::string& subject, const Objects& members,
                                 const Objects& wanted, bool is_whole) const {
        std::vector<SifSignature> out;
        std::string reason;
        bool has_others = false;
        size_t looked_at = 0;
        for (const Descriptor& one : sif_.used) {
            if (one.type != type_signature || one.link != link) continue;
            // Each costs a process.
            if (++looked_at > signatures_limit)
                refuse(cat(subject, " has more than ", signatures_limit, " signatures"));
            try {
                auto good = good_one(one, members, wanted, is_whole);
                has_others = has_others || !good;
                if (good) out.push_back(std::move(*good));
            } catch (const Error& problem) {
                if (!scope_.one_is_enough) throw;
                if (reason.empty()) reason = problem.what();
            }
            if (scope_.one_is_enough && !out.empty()) return out;
        }
        if (!out.empty()) return out;
        if (!reason.empty()) throw Error(reason);
        if (!has_others) refuse(cat("signature not found for ", subject));
        refuse(cat("signature not found for ", subject,
                   scope_.older           ? " in the older form"
                   : scope_.one_is_enough ? "; one of the older form does not cover the header and the descriptors"
                                          : "; there is one of the older form, which does "
                                            "not cover the header and the descriptors: "
                                            "write --legacy-insecure to count it"));
    }

    /// Nothing for a signature of the form that does not count.
    std::optional<SifSignature> good_one(const Descriptor& one, const Objects& members, const Objects& wanted,
                                         bool is_whole) const {
        std::string called = cat(prefix_, "signature ", uint32_t{one.id});
        Means::GpgText signed_text = text_of(one, called);
        if (is_older_statement(signed_text.text) != scope_.older) return std::nullopt;
        if (!scope_.envelopes) check_key(one, signed_text.key, called);
        if (scope_.older)
            check_older(one, signed_text.text, members, called);
        else
            check_statement(parse_sif_statement(signed_text.text, called), members, wanted, is_whole, called);
        SifSignature out{one.id, signed_text.key, {}};
        for (const Descriptor* object : wanted) out.objects.push_back(object->id);
        return out;
    }

    Means::GpgText text_of(const Descriptor& signature, const std::string& called) const {
        if (signature.size <= 0 || signature.size > signature_limit)
            throw Error(cat(called, ": larger than ", human_bytes(signature_limit), ", or empty"));
        std::string message = contents_.bytes(signature);
        bool is_pgp = message.find("-----BEGIN PGP SIGNED MESSAGE-----") != message.npos;
        if (is_pgp && scope_.envelopes) throw Error(cat(called, ": of PGP; apptainer verify without --key checks it"));
        if (!is_pgp && !scope_.envelopes)
            throw Error(cat(called, ": not of PGP; apptainer verify --key FILE.pem checks one by another key"));
        try {
            return check_(keyrings_, message);
        } catch (const Error& problem) {
            std::string written = written_key(signature);
            std::string_view why = problem.what();
            constexpr std::string_view subject = "the signature: ";
            if (why.starts_with(subject)) why.remove_prefix(subject.size());
            bool is_by_keyring = !scope_.one_is_enough && !scope_.envelopes;
            throw Error(cat(called, written.empty() ? "" : cat(" by key ", written), ": ", why,
                            is_by_keyring ? "; apptainer key list shows the keys that count" : ""));
        }
    }

    void check_key(const Descriptor& signature, const std::string& key, const std::string& called) const {
        std::string written = written_key(signature);
        if (!written.empty() && key != written) throw Error(cat(called, ": it is by another key than it says"));
    }

    /// Which key a signature says that it is by; empty: none.
    static std::string written_key(const Descriptor& signature) {
        std::string out = hex_text(signature.fingerprint);
        for (char& c : out)
            if (c >= 'a') c = static_cast<char>(c - 'a' + 'A');
        return out.find_first_not_of('0') == out.npos ? "" : out;
    }

    static bool is(const SifDigest& digest, std::string_view data) {
        Digester hash(digest.algorithm);
        hash.update(data);
        return hash.finish() == digest.value;
    }

    void check_older(const Descriptor& signature, const std::string& text, const Objects& members,
                     const std::string& called) const {
        SifDigest digest = parse_older_statement(text, signature.hash, called);
        if (contents_.digest(members, digest.algorithm) != digest.value)
            throw Error(cat(called, ": what it covers was changed"));
    }

    void check_statement(const SifStatement& statement, const Objects& members, const Objects& wanted, bool is_whole,
                         const std::string& called) const {
        uint32_t first = UINT32_MAX;
        for (const Descriptor* object : members) first = std::min(first, uint32_t{object->id});
        if (is_whole && statement.objects.size() != wanted.size())
            throw Error(
                cat(called, ": it covers ", statement.objects.size(), " objects, and its group has ", wanted.size()));
        if (!is(statement.header, signed_fields(sif_.header))) throw Error(cat(called, ": the header was changed"));
        for (const Descriptor* object : wanted) check_object(statement, *object, first, called);
    }

    void check_object(const SifStatement& statement, const Descriptor& object, uint32_t first,
                      const std::string& called) const {
        uint32_t id = object.id;
        auto covers = [&](const SifStatement::Object& one) { return one.relative == id - first; };
        if (std::ranges::count_if(statement.objects, covers) != 1)
            throw Error(cat(called, ": it does not cover object ", id));
        const SifStatement::Object& one = *std::ranges::find_if(statement.objects, covers);
        if (!is(one.descriptor, signed_fields(object, first)))
            throw Error(cat(called, ": the descriptor of object ", id, " was changed"));
        if (contents_.digest(object, one.content.algorithm) != one.content.value)
            throw Error(cat(called, ": object ", id, " was changed"));
    }

    SifContents& contents_;
    const squash::SifObjects& sif_;
    std::string prefix_;
    const SifScope& scope_;
    const std::vector<std::string>& keyrings_;
    const decltype(Means::gpg)& check_;
};

}  // namespace

std::vector<SifSignature> verify_sif(SifContents& contents, const std::string& what, const SifScope& scope,
                                     const std::vector<std::string>& keyrings, const decltype(Means::gpg)& check) {
    return Verifier(contents, what, scope, keyrings, check).all();
}

}  // namespace berth::trust
