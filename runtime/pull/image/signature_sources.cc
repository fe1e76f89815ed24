#include "runtime/pull/image/signature_sources.hh"

#include <fcntl.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/trust/remembered.hh"
#include "runtime/trust/signature/attachment.hh"

namespace berth::pull {

using trust::Signature;

namespace {

constexpr size_t remembered_bytes = 32 << 20;
constexpr size_t yaml_bytes = 1 << 20;

/// Not what merely failed for now: a registry that is down must not make an image look unsigned.
template <typename Work>
void passing_over(const Problem& problem, const Work& work) try {
    work();
} catch (const oci::Unreachable&) {
    throw;
} catch (const SysError&) {
    throw;
} catch (const Error& error) {
    problem(error.what());
}

/// The blobs of one manifest.
void take_attachments(oci::Registry& registry, const std::string& manifest, const std::string& where,
                      const Problem& problem, std::vector<Signature>& out) {
    for (trust::Attachment& one : trust::parse_attachments(manifest, where))
        passing_over(problem, [&] {
            auto kind = one.signature.empty() ? Signature::Kind::bundle : Signature::Kind::payload;
            if (out.size() >= trust::attachment_limit) throw Error(cat(where, ": more signatures than are looked at"));
            out.push_back({kind, registry.get_blob(one.blob), std::move(one.signature), where});
        });
}

std::string list_of_referrers(oci::Registry& registry, const Digest& manifest) {
    if (auto list = registry.find_referrers(manifest)) return *list;
    auto stand_in = registry.find_attached(oci::referrers_tag(manifest));
    return stand_in ? stand_in->bytes : "";
}

std::string read_local(const std::string& path, bool& found) {
    Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    found = bool(file);
    return found ? sys::read_all(file.get(), trust::attachment_bytes, printable(path, 4096)) : "";
}

std::string read_remote(oci::Http& http, const oci::RegistryOptions& options, const std::string& url, bool& found) {
    oci::HttpRequest request;
    request.url = url;
    request.proxy = options.proxy;
    request.no_proxy = options.no_proxy;
    oci::HttpAnswer answer = http.exchange(request, trust::attachment_bytes);
    found = answer.status != 404;
    if (found && answer.status != 200)
        throw Error(cat("reading the signature ", printable(url, 1024), ": status ", answer.status));
    return answer.body;
}

}  // namespace

std::vector<Signature> remembered_signatures(const store::Store& store, const Digest& manifest) try {
    auto text = store.find_document(manifest, store::attached_signatures_file, remembered_bytes);
    return text ? trust::parse_remembered(*text, "the signatures in the store") : std::vector<Signature>{};
} catch (const Error&) {
    // They are fetched again.
    return {};
}

std::vector<Signature> tagged_signatures(oci::Registry& registry, const Digest& manifest, const Problem& problem) {
    std::vector<Signature> out;
    std::string tag = trust::signature_tag(manifest);
    passing_over(problem, [&] {
        auto found = registry.find_attached(tag);
        if (found) take_attachments(registry, found->bytes, "a signature at " + tag, problem, out);
    });
    return out;
}

std::vector<Signature> referring_signatures(oci::Registry& registry, const Digest& manifest, const Problem& problem) {
    std::vector<Signature> out;
    passing_over(problem, [&] {
        std::string list = list_of_referrers(registry, manifest);
        if (list.empty()) return;
        for (const oci::Descriptor& one : trust::parse_referrers(list, "the list of referrers"))
            passing_over(problem, [&] {
                std::string where = cat("referrer ", one.digest);
                auto found = registry.find_attached(one.digest.text());
                if (found) take_attachments(registry, found->bytes, where, problem, out);
            });
    });
    return out;
}

std::vector<Signature> lookaside_signatures(const std::string& base, const Digest& manifest,
                                            const oci::RegistryOptions& options) {
    oci::Http http(options.limits, options.stop);
    std::vector<Signature> out;
    for (size_t number = 1; number <= trust::attachment_limit; ++number) {
        std::string url = trust::signature_url(base, manifest, number);
        auto path = trust::path_of_url(url);
        bool found = false;
        std::string content = path ? read_local(*path, found) : read_remote(http, options, url, found);
        if (!found) break;
        out.push_back({Signature::Kind::gpg, content, "", cat("signature-", number, " of ", printable(base, 1024))});
    }
    return out;
}

trust::Lookaside read_lookaside(const std::string& folder) {
    Fd directory = sys::open_if_exists(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    if (!directory) return {};
    std::vector<trust::NamedText> files;
    for (const std::string& name : sys::list_directory(directory.get(), printable(folder, 4096)))
        if (name.ends_with(".yaml")) {
            std::string path = cat(folder, "/", name);
            files.push_back({printable(path, 4096), sys::read_file(path, yaml_bytes)});
        }
    return trust::parse_lookaside(files);
}

}  // namespace berth::pull
