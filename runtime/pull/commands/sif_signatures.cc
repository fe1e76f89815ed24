// `berth-pull sif-verify` and `sif-key-...`: what `apptainer verify` and `key` do, whose command lines these are.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/format/sif_text.hh"
#include "runtime/trust/gpgv.hh"
#include "runtime/trust/keyring_file.hh"
#include "runtime/trust/sif.hh"
#include "runtime/trust/sif_envelope.hh"

namespace berth::pull {

namespace {

constexpr size_t keyring_limit = 16 << 20;
constexpr const char* site_keyring = "/etc/apptainer/global-pgp-public";
constexpr int exit_fatal = 255;

/// What `berth` adds to every command of this program.
struct Common {
    std::string store, site;
    bool quiet = false;
    bool global = false;  ///< the site's keyring, in place of the user's
};

void declare_keyring(CommandLine& line, Common& common) {
    line.flag("-g,--global", common.global, "the keys of all users of this node, which root adds and removes");
}

void declare(CommandLine& line, Common& common) {
    line.option("--store", common.store, "").hidden();
    line.option("--site", common.site, "").hidden();
    line.flag("-q,--quiet", common.quiet, "no lines of INFO");
}

void tell(const Common& common, const std::string& text) {
    if (!common.quiet) std::fprintf(stderr, "INFO:    %s\n", text.c_str());
}

template <typename Body>
int fatal_unless_good(const Body& body) {
    try {
        return body();
    } catch (const Error& problem) {
        std::fprintf(stderr, "FATAL:   %s\n", problem.what());
        return exit_fatal;
    }
}

/// Of APPTAINER_NAME, else SINGULARITY_NAME; empty: neither has a value.
std::string variable(const char* name) {
    for (const char* prefix : {"APPTAINER_", "SINGULARITY_"})
        if (const char* value = std::getenv(cat(prefix, name).c_str()); value != nullptr && *value != '\0')
            return value;
    return {};
}

/// Where Apptainer keeps public keys of the user's, or of the site's.
std::string keyring_path(bool global = false) {
    if (global) return site_keyring;
    if (std::string folder = variable("KEYSDIR"); !folder.empty()) return cat(folder, "/pgp-public");
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home == '\0') throw Error("finding the keyring: HOME is not set; set APPTAINER_KEYSDIR");
    return cat(home, "/.apptainer/keys/pgp-public");
}

/// Its packets; empty when there is none.
std::string read_keyring(const std::string& path) {
    Fd file = sys::try_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    return file ? sys::read_all(file.get(), keyring_limit, path) : "";
}

void make_folders(const std::string& path, mode_t mode) {
    for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
        if (::mkdir(path.substr(0, slash).c_str(), mode) != 0 && errno != EEXIST)
            throw SysError(cat("making ", printable(path.substr(0, slash), 4096)));
}

/// In place of what is there, by a rename.
void write_keyring(const std::string& packets, bool global) {
    std::string path = keyring_path(global);
    make_folders(path, global ? 0755 : 0700);
    std::string fresh = cat(path, ".", random_word());
    Fd file = sys::open_file(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    try {
        sys::write_all(file.get(), packets, fresh);
        if (global && ::fchmod(file.get(), 0644) != 0) throw SysError(cat("writing ", printable(path, 4096)));
        if (::rename(fresh.c_str(), path.c_str()) != 0) throw SysError(cat("writing ", printable(path, 4096)));
    } catch (...) {
        ::unlink(fresh.c_str());
        throw;
    }
}

Fd opened(const std::string& path) {
    return sys::open_file(path, O_RDONLY | O_NONBLOCK);
}

struct VerifyWords {
    Common common;
    uint32_t group = 0, object = 0;  ///< 0: none
    bool older = false;
    bool json = false, all = false, accepted = false;
    std::string key, refused, image;  ///< `key`: a file with one in PEM; empty: those of the keyring
};

void declare(CommandLine& line, VerifyWords& verify) {
    line.option("-g,--group-id,--groupid", verify.group, "the objects of this group");
    line.option("-i,--sif-id,--id", verify.object, "this object");
    line.flag("-a,--all", verify.all,
              "all objects, as without it; with --legacy-insecure each by a signature of its own");
    line.flag("-j,--json", verify.json, "print JSON");
    line.flag("--legacy-insecure", verify.older,
              "signatures of the older form, which do not cover the header and the descriptors");
    line.flag("-l,--local", verify.accepted, "accepted: no server of keys is asked in any case");
    line.option("--key", verify.key, "by this public key in PEM, signatures that are no PGP signatures");
    for (const char* name : {"-u,--url", "--certificate", "--certificate-intermediates", "--certificate-roots"})
        line.option(name, verify.refused, "").hidden();
    line.argument("IMAGE", verify.image, "a SIF file").required();
    declare(line, verify.common);
}

std::vector<trust::SifSignature> verified(const VerifyWords& verify, int file, const squash::SifObjects& sif,
                                          const std::vector<std::string>& keyrings) {
    trust::SifContents contents(file, verify.image);
    auto one = [&](const trust::SifScope& scope) {
        return trust::verify_sif(contents, verify.image, scope, keyrings,
                                 scope.envelopes ? trust::text_of_envelope : trust::check_by_gpgv);
    };
    trust::SifScope scope{.older = verify.older, .envelopes = !verify.key.empty()};
    if (verify.group != 0) scope.group = verify.group;
    if (verify.object != 0) scope.object = verify.object;
    if (!verify.all || !verify.older) return one(scope);
    std::vector<trust::SifSignature> out;
    for (const auto& object : sif.used)
        if (object.type != squash::sif::type_signature && (object.group & ~squash::sif::group_mark) != 0)
            for (trust::SifSignature& good : one({.object = uint32_t{object.id}, .older = true}))
                out.push_back(std::move(good));
    return out;
}

/// Of each signature. "unknown" where there is no gpg to read names.
std::vector<std::string> names_of(const std::vector<trust::SifSignature>& signatures, const std::string& packets) {
    std::vector<trust::KeyringEntry> keys;
    try {
        keys = trust::keys_in(packets);
    } catch (const Error&) {
        // The signature is good all the same.
    }
    std::vector<std::string> out;
    for (const trust::SifSignature& signature : signatures) {
        auto found = std::ranges::find_if(
            keys, [&](const trust::KeyringEntry& key) { return lower(key.fingerprint) == lower(signature.key); });
        out.push_back(found == keys.end() || found->name.empty() ? "unknown" : printable(found->name, 1024));
    }
    return out;
}

using Objects = std::vector<squash::sif::Descriptor>;

/// Calls `each` with the objects that the signature covers.
template <typename Each>
void for_covered(const Objects& objects, const trust::SifSignature& signature, const Each& each) {
    for (const squash::sif::Descriptor& one : objects)
        if (std::ranges::find(signature.objects, uint32_t{one.id}) != signature.objects.end()) each(one);
}

void print(const Objects& objects, const trust::SifSignature& signature, const std::string& who) {
    if (!who.empty())
        std::printf("[LOCAL]   Signing entity: %s\n[LOCAL]   Fingerprint: %s\n", who.c_str(), signature.key.c_str());
    std::puts("Objects verified:");
    std::printf("%-4s|%-8s|%-8s|%s\n%s\n", "ID", "GROUP", "LINK", "TYPE", std::string(48, '-').c_str());
    for_covered(objects, signature, [](const squash::sif::Descriptor& one) {
        std::printf("%-4u|%-8s|%-8s|%s\n", uint32_t{one.id}, squash::group_text(one.group).c_str(),
                    squash::link_text(one.link).c_str(), squash::type_name(one.type).c_str());
    });
}

/// In the form of Apptainer (cmd/internal/cli/pgp.go).
void print_json(const Objects& objects, const std::vector<trust::SifSignature>& signatures,
                const std::vector<std::string>& names) {
    using Json = nlohmann::ordered_json;
    Json signers = Json::array();
    for (size_t i = 0; i < signatures.size(); ++i)
        for_covered(objects, signatures[i], [&](const squash::sif::Descriptor& one) {
            signers.push_back({{"Signer",
                                {{"Partition", squash::type_name(one.type)},
                                 {"Name", names.at(i)},
                                 {"Fingerprint", lower(signatures[i].key)},
                                 {"KeyLocal", true},
                                 {"KeyCheck", true},
                                 {"DataCheck", true}}}});
        });
    Json out{{"Signatures", signatures.size()}, {"SignerKeys", signers}};
    std::puts(out.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int verify_file(const VerifyWords& verify) {
    if (!verify.refused.empty() || !variable("VERIFY_CERTIFICATE").empty())
        throw Error(
            "apptainer verify: certificates and servers of keys are not used; import a PGP key with apptainer key "
            "import, or name a key by --key");
    tell(verify.common, verify.key.empty()
                            ? "Verifying image with PGP key material"
                            : cat("Verifying image with key material from '", printable(verify.key, 4096), "'"));
    std::string packets = verify.key.empty()
                              ? cat(read_keyring(site_keyring), read_keyring(keyring_path()))
                              : sys::read_all(opened(verify.key).get(), keyring_limit, printable(verify.key, 4096));
    Fd file = opened(verify.image);
    squash::SifObjects sif = squash::read_sif(file.get(), verify.image);
    std::vector<trust::SifSignature> good;
    try {
        good = verified(verify, file.get(), sif, {packets});
    } catch (const Error& problem) {
        if (verify.json) print_json({}, {}, {});
        throw Error(cat("Failed to verify container: ", problem.what()));
    }
    std::vector<std::string> names(good.size());
    if (verify.key.empty()) names = names_of(good, packets);
    if (verify.json) return print_json(sif.used, good, names), 0;
    for (size_t i = 0; i < good.size(); ++i) print(sif.used, good[i], names[i]);
    tell(verify.common, cat("Verified signature(s) from image '", printable(verify.image, 4096), "'"));
    return 0;
}

int list_keys(const Common& common) {
    std::string path = keyring_path(common.global);
    std::printf("Public key listing (%s):\n\n", printable(path, 4096).c_str());
    int number = 0;
    for (const trust::KeyringEntry& key : trust::keys_in(read_keyring(path)))
        std::printf("%d)  User:              %s\n    Fingerprint:       %s\n    Length (in bits):  %u\n\n", number++,
                    printable(key.name, 1024).c_str(), key.fingerprint.c_str(), key.bits);
    return 0;
}

int import_keys(const std::string& file, const Common& common) {
    std::string more = sys::read_all(opened(file).get(), keyring_limit, printable(file, 4096));
    write_keyring(trust::with_keys(read_keyring(keyring_path(common.global)), more), common.global);
    for (const trust::KeyringEntry& key : trust::keys_in(more))
        tell(common, cat("Key with fingerprint ", key.fingerprint, " added to the keyring"));
    return 0;
}

int remove_key(std::string fingerprint, const Common& common) {
    for (char& c : fingerprint)
        if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
    write_keyring(trust::without_key(read_keyring(keyring_path(common.global)), fingerprint), common.global);
    tell(common, cat("Key with fingerprint ", fingerprint, " removed"));
    return 0;
}

}  // namespace

int sif_verify_command(int argc, char** argv) {
    CommandLine line("Verify the signatures in a SIF file.", "apptainer verify");
    VerifyWords verify;
    declare(line, verify);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    if (verify.key.empty()) verify.key = variable("VERIFY_KEY");
    return fatal_unless_good([&] { return verify_file(verify); });
}

int sif_key_list_command(int argc, char** argv) {
    CommandLine line("List the public keys by which signatures in SIF files are verified.", "apptainer key list");
    Common common;
    bool secret = false;
    line.flag("-s,--secret", secret, "").hidden();
    declare_keyring(line, common);
    declare(line, common);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    return fatal_unless_good([&] {
        if (secret) throw Error("apptainer key list --secret: Berth signs no SIF files and has no secret keys");
        return list_keys(common);
    });
}

int sif_key_import_command(int argc, char** argv) {
    CommandLine line("Add public keys to those by which SIF files are verified.", "apptainer key import");
    Common common;
    std::string file;
    line.argument("FILE", file, "the keys, in ASCII armor or not").required();
    declare_keyring(line, common);
    declare(line, common);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    return fatal_unless_good([&] { return import_keys(file, common); });
}

int sif_key_remove_command(int argc, char** argv) {
    CommandLine line("Remove a public key from those by which SIF files are verified.", "apptainer key remove");
    Common common;
    std::string fingerprint;
    line.argument("FINGERPRINT", fingerprint, "40 hexadecimal digits, as apptainer key list shows them").required();
    declare_keyring(line, common);
    declare(line, common);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    return fatal_unless_good([&] { return remove_key(fingerprint, common); });
}

}  // namespace berth::pull
