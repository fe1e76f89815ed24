#include "runtime/trust/sif.hh"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/trust/signature/sif_statement.hh"

namespace berth::trust {

namespace {

using namespace squash::sif;

constexpr int64_t signature_limit = 256 << 10;
constexpr size_t read_at_once = 1 << 20;

class Hash {
  public:
    explicit Hash(const std::string& algorithm) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
        check(context_ && EVP_DigestInit_ex(context_.get(), EVP_get_digestbyname(algorithm.c_str()), nullptr) == 1);
    }
    void update(std::string_view data) { check(EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1); }
    std::string finish() {
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned length = 0;
        check(EVP_DigestFinal_ex(context_.get(), hash, &length) == 1);
        return hex_text({hash, length});
    }

  private:
    static void check(bool good) {
        if (!good) throw Error("computing a digest: OpenSSL failed; check its configuration (openssl dgst -sha384)");
    }
    std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

class Verifier {
  public:
    Verifier(int fd, const std::string& what, const SifScope& scope, const std::vector<std::string>& keyrings,
             const decltype(Means::gpg)& check)
        : fd_(fd),
          what_(cat("verifying ", printable(what, 4096))),
          scope_(scope),
          keyrings_(keyrings),
          check_(check),
          sif_(squash::read_sif(fd, what)) {
        std::set<uint32_t> seen;
        for (const Descriptor& one : sif_.used)
            if (uint32_t id = one.id; !seen.insert(id).second) refuse(cat("two objects have the number ", id));
    }

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

    [[noreturn]] void refuse(const std::string& why) const { throw Error(cat(what_, ": ", why)); }
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
        bool has_others = false;
        for (const Descriptor& one : sif_.used) {
            if (one.type != type_signature || one.link != link) continue;
            std::string called = cat(what_, ": signature ", uint32_t{one.id});
            Means::GpgText signed_text = text_of(one, called);
            if (is_older_statement(signed_text.text) != scope_.older) {
                has_others = true;
                continue;
            }
            check_key(one, signed_text.key, called);
            if (scope_.older)
                check_older(one, signed_text.text, members, called);
            else
                check_statement(parse_sif_statement(signed_text.text, called), members, wanted, is_whole, called);
            SifSignature good{one.id, signed_text.key, {}};
            for (const Descriptor* object : wanted) good.objects.push_back(object->id);
            out.push_back(std::move(good));
        }
        if (!out.empty()) return out;
        if (!has_others) refuse(cat("signature not found for ", subject));
        refuse(cat("signature not found for ", subject,
                   scope_.older ? " in the older form"
                                : "; there is one of the older form, which does "
                                  "not cover the header and the descriptors: "
                                  "write --legacy-insecure to count it"));
    }

    std::string content(const Descriptor& object) const {
        std::string out(static_cast<size_t>(object.size), '\0');
        if (!sys::pread_exact(fd_, out, static_cast<uint64_t>(object.offset), what_))
            refuse("the file became shorter meanwhile");
        return out;
    }

    Means::GpgText text_of(const Descriptor& signature, const std::string& called) const {
        if (signature.size <= 0 || signature.size > signature_limit)
            throw Error(cat(called, ": larger than ", human_bytes(signature_limit), ", or empty"));
        std::string message = content(signature);
        if (std::string_view(message).find("-----BEGIN PGP SIGNED MESSAGE-----") == std::string_view::npos)
            throw Error(cat(called, ": not of PGP; signatures by other keys and certificates are not checked"));
        try {
            return check_(keyrings_, message);
        } catch (const Error& problem) {
            throw Error(cat(called, ": ", problem.what(), "; apptainer key list shows the keys that count"));
        }
    }

    void check_key(const Descriptor& signature, const std::string& key, const std::string& called) const {
        std::string written = hex_text(signature.fingerprint);
        bool is_written = written.find_first_not_of('0') != written.npos;
        if (is_written && lower(key) != written) throw Error(cat(called, ": it is by another key than it says"));
    }

    void hash_into(Hash& hash, const Descriptor& object) const {
        std::string part;
        for (int64_t at = 0; at < object.size; at += static_cast<int64_t>(part.size())) {
            part.resize(std::min<size_t>(read_at_once, static_cast<size_t>(object.size - at)));
            if (!sys::pread_exact(fd_, part, static_cast<uint64_t>(object.offset + at), what_))
                refuse("the file became shorter meanwhile");
            hash.update(part);
        }
    }

    static bool is(const SifDigest& digest, std::string_view data) {
        Hash hash(digest.algorithm);
        hash.update(data);
        return hash.finish() == digest.value;
    }

    void check_older(const Descriptor& signature, const std::string& text, const Objects& members,
                     const std::string& called) const {
        SifDigest digest = parse_older_statement(text, signature.hash, called);
        Hash hash(digest.algorithm);
        for (const Descriptor* object : members) hash_into(hash, *object);
        if (hash.finish() != digest.value) throw Error(cat(called, ": what it covers was changed"));
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
        Hash hash(one.content.algorithm);
        hash_into(hash, object);
        if (hash.finish() != one.content.value) throw Error(cat(called, ": object ", id, " was changed"));
    }

    int fd_;
    std::string what_;
    const SifScope& scope_;
    const std::vector<std::string>& keyrings_;
    const decltype(Means::gpg)& check_;
    squash::SifObjects sif_;
};

}  // namespace

std::vector<SifSignature> verify_sif(int fd, const std::string& what, const SifScope& scope,
                                     const std::vector<std::string>& keyrings, const decltype(Means::gpg)& check) {
    return Verifier(fd, what, scope, keyrings, check).all();
}

}  // namespace berth::trust
