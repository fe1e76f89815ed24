#include "runtime/trust/signature/key.hh"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::trust {

namespace {

constexpr int rsa_bits_least = 2048;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

Bio reader_of(std::string_view text) {
    Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
    if (!bio) throw Error("reading a key: OpenSSL has no memory");
    return bio;
}

EVP_PKEY* raw(const KeyOwner& key) { return static_cast<EVP_PKEY*>(key.get()); }
const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

/// A block of PEM.
struct Block {
    std::string name;
    std::string content;
};

Block first_block(std::string_view pem, const std::string& what) {
    Bio bio = reader_of(pem);
    char *name = nullptr, *header = nullptr;
    unsigned char* data = nullptr;
    long size = 0;
    if (PEM_read_bio(bio.get(), &name, &header, &data, &size) != 1) {
        ERR_clear_error();
        throw Error(cat(what, ": no public key in PEM in it"));
    }
    Block out{name, {reinterpret_cast<char*>(data), static_cast<size_t>(size)}};
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(data);
    return out;
}

/// Empty for what is no such key, or has something behind it.
KeyOwner decoded(const Block& block) {
    const unsigned char* at = bytes(block.content);
    auto size = static_cast<long>(block.content.size());
    KeyOwner key(block.name == "PUBLIC KEY"       ? d2i_PUBKEY(nullptr, &at, size)
                 : block.name == "RSA PUBLIC KEY" ? d2i_PublicKey(EVP_PKEY_RSA, nullptr, &at, size)
                                                  : nullptr);
    ERR_clear_error();
    if (at != bytes(block.content) + block.content.size()) key.reset();
    return key;
}

/// P-256 or one of its larger kin; OpenSSL 1.1 has no name for it.
bool has_named_curve(EVP_PKEY* key) {
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    char name[64];
    size_t size = 0;
    int curve = EVP_PKEY_get_group_name(key, name, sizeof name, &size) == 1 ? OBJ_txt2nid(name) : NID_undef;
#else
    int curve = EC_GROUP_get_curve_name(EC_KEY_get0_group(EVP_PKEY_get0_EC_KEY(key)));
#endif
    return curve == NID_X9_62_prime256v1 || curve == NID_secp384r1 || curve == NID_secp521r1;
}

void check_kind(EVP_PKEY* key, const std::string& what) {
    int kind = EVP_PKEY_base_id(key);
    if (kind == EVP_PKEY_RSA && EVP_PKEY_bits(key) < rsa_bits_least)
        throw Error(cat(what, ": an RSA key of ", EVP_PKEY_bits(key), " bits; ", rsa_bits_least,
                        " are the least that is taken"));
    if (kind == EVP_PKEY_RSA || kind == EVP_PKEY_ED25519 || (kind == EVP_PKEY_EC && has_named_curve(key))) return;
    throw Error(cat(what, ": neither ECDSA (P-256, P-384, P-521) nor RSA nor Ed25519"));
}

/// Ed25519 hashes by itself.
const EVP_MD* hash_for(EVP_PKEY* key) {
    return EVP_PKEY_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

Context new_context() {
    Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    if (!context) throw Error("checking a signature: OpenSSL has no memory");
    return context;
}

/// What i2d writes into nothing, and into memory.
template <typename Write>
std::string written(const Write& write) {
    int size = write(nullptr);
    if (size <= 0) throw Error("writing a public key: OpenSSL fails");
    std::string out(static_cast<size_t>(size), '\0');
    unsigned char* at = bytes(out);
    write(&at);
    return out;
}

int no_password(char*, int, int, void*) { return -1; }

}  // namespace

void FreeKey::operator()(void* key) const { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); }

PublicKey::PublicKey(std::string_view pem, const std::string& what) : name_(what) {
    Block block = first_block(pem, what);
    key_ = decoded(block);
    if (!key_) throw Error(cat(what, ": the block \"", printable(block.name, 64), "\" is no public key in PEM"));
    check_kind(raw(key_), what);
}

bool PublicKey::verifies(std::string_view message, std::string_view signature) const {
    Context context = new_context();
    EVP_PKEY* key = raw(key_);
    bool holds = EVP_DigestVerifyInit(context.get(), nullptr, hash_for(key), nullptr, key) == 1 &&
                 EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                                  message.size()) == 1;
    ERR_clear_error();
    return holds;
}

std::string PublicKey::fingerprint() const {
    return oci::sha256_of(written([&](unsigned char** at) { return i2d_PUBKEY(raw(key_), at); })).text();
}

std::string PublicKey::pem() const {
    Bio bio(BIO_new(BIO_s_mem()), BIO_free);
    char* data = nullptr;
    if (!bio || PEM_write_bio_PUBKEY(bio.get(), raw(key_)) != 1) throw Error("writing a public key: OpenSSL fails");
    long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<size_t>(size)};
}

PrivateKey::PrivateKey(std::string_view pem, const std::string& what) : name_(what) {
    Bio bio = reader_of(pem);
    key_.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
    ERR_clear_error();
    if (!key_)
        throw Error(cat(what, ": no private key in PEM without a password in it",
                        pem.find("SIGSTORE PRIVATE KEY") == pem.npos && pem.find("COSIGN PRIVATE KEY") == pem.npos
                            ? "; openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes one"
                            : "; cosign's own form of keys is not read, use cosign sign with it"));
    check_kind(raw(key_), what);
}

std::string PrivateKey::sign(std::string_view message) const {
    Context context = new_context();
    EVP_PKEY* key = raw(key_);
    size_t size = 0;
    auto sign = [&](unsigned char* out) {
        return EVP_DigestSign(context.get(), out, &size, bytes(message), message.size()) == 1;
    };
    std::string out;
    bool done = EVP_DigestSignInit(context.get(), nullptr, hash_for(key), nullptr, key) == 1 && sign(nullptr);
    out.resize(size);
    if (!done || !sign(bytes(out))) throw Error(cat("signing with ", name_, ": OpenSSL fails"));
    out.resize(size);
    return out;
}

PublicKey PrivateKey::public_key() const {
    EVP_PKEY_up_ref(raw(key_));
    return PublicKey(KeyOwner(key_.get()), name_);
}

}  // namespace berth::trust
