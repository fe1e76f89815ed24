#include "runtime/oci/registry/registry.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/registry/client.hh"
#include "runtime/oci/registry/error.hh"

namespace berth::oci {

namespace {

/// A mirror that does not answer must not cost more than the registry itself.
constexpr unsigned mirror_retries = 1;

RetryRules with_retries(RetryRules rules, unsigned retries) {
    rules.retries = std::min(rules.retries, retries);
    return rules;
}

[[noreturn]] void refuse_manifest(RegistryClient& host, const HttpAnswer& answer, const std::string& what) {
    try {
        host.refuse_answer(answer, what);
    } catch (const Refused& problem) {
        if (answer.status != 404) throw;
        throw NoManifest(problem.what());
    }
}

}  // namespace

struct Registry::Impl {
    plan::Reference reference;
    RegistryOptions options;
    std::vector<std::unique_ptr<RegistryClient>> hosts;  ///< the mirrors, then the registry
    std::set<RegistryClient*> senders;                   ///< of the last blob

    Impl(const plan::Reference& ref, RegistryOptions opts) : reference(ref), options(std::move(opts)) {
        if (!options.history) options.history = std::make_shared<LoginHistory>();
        for (const std::string& mirror : options.mirrors) add(mirror, std::make_shared<Session>());
        add(reference.registry, std::make_shared<Session>());
    }
    Impl(const Impl& other) : reference(other.reference), options(other.options) {
        for (size_t i = 0; i < other.hosts.size(); ++i)
            add(i < options.mirrors.size() ? options.mirrors[i] : reference.registry, other.hosts[i]->session());
    }
    void add(const std::string& host, std::shared_ptr<Session> session) {
        hosts.push_back(std::make_unique<RegistryClient>(reference, host, options, std::move(session)));
    }

    std::string what() const { return cat("image ", printable(reference.text(), 1024)); }
    template <typename Operation>
    auto at_first(const Operation& operation, const bool& final = false, unsigned retries = UINT_MAX);
    bool pass_over(RegistryClient& mirror, const Error& problem, bool unreachable) const;
    Document verified(HttpAnswer answer, const std::string& tag_or_digest) const;
    std::optional<HttpAnswer> find(const std::string& path, const std::string& about);
    void stream_from(RegistryClient& host, const RetryRules& rules, const Descriptor& blob, const Sink& sink,
                     const uint64_t& received, uint64_t until = 0) const;
    void stream(const Descriptor& blob, uint64_t from, uint64_t until, const Sink& sink);
};

/// Does it at the first host that can; what the registry itself says is the last word. `final` is looked at after a
/// failure: true, it stays one.
template <typename Operation>
auto Registry::Impl::at_first(const Operation& operation, const bool& final, unsigned retries) {
    for (auto& host : hosts) {
        if (host == hosts.back()) break;
        if (host->session()->given_up) continue;
        try {
            return operation(*host, with_retries(options.retry, std::min(retries, mirror_retries)));
        } catch (const Unreachable& problem) {
            if (final || !pass_over(*host, problem, true)) throw;
        } catch (const Error& problem) {
            if (final || !pass_over(*host, problem, false)) throw;
        }
    }
    return operation(*hosts.back(), with_retries(options.retry, retries));
}

bool Registry::Impl::pass_over(RegistryClient& mirror, const Error& problem, bool unreachable) const {
    if (options.stop != nullptr && options.stop->load()) return false;
    if (unreachable) mirror.session()->given_up = true;
    if (options.notice) options.notice(cat("mirror ", mirror.host(), " passed over: ", problem.what()));
    return true;
}

Registry::Registry(const plan::Reference& reference, RegistryOptions options)
    : impl_(std::make_unique<Impl>(reference, std::move(options))) {}
Registry::Registry(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry::~Registry() = default;

Registry Registry::sibling() const { return Registry(std::make_unique<Impl>(*impl_)); }

std::optional<Resolution> Registry::head_manifest(const std::string& tag_or_digest) {
    auto head = [&](RegistryClient& host, const RetryRules& rules) -> std::optional<Resolution> {
        HttpAnswer answer =
            host.get({.path = "manifests/" + tag_or_digest,
                      .what = impl_->what(),
                      .head = true,
                      .accept = accepted_manifests()},
                     rules);
        // Some registries and proxies know GET alone.
        if (answer.status == 405 || answer.status == 501) return std::nullopt;
        if (answer.status != 200) refuse_manifest(host, answer, impl_->what());
        std::string told = answer.header("docker-content-digest");
        if (told.empty()) return std::nullopt;
        auto digest = Digest::parse(told);
        if (!digest)
            throw Error(
                cat(impl_->what(), ": the registry names it by \"", printable(told), "\", which is no sha256 digest"));
        return Resolution{*digest, answer.header("etag")};
    };
    return impl_->at_first(head, false, impl_->options.head_retries);
}

/// The document of an answer, whose digest is what was asked for and what the registry tells.
Document Registry::Impl::verified(HttpAnswer answer, const std::string& tag_or_digest) const {
    Digest digest = sha256_of(answer.body);
    std::string told = answer.header("docker-content-digest");
    std::string wanted = Digest::parse(tag_or_digest) ? tag_or_digest : told;
    for (const std::string& other : {told, wanted})
        if (!other.empty() && digest != other)
            throw Error(cat(what(), ": the registry sent a manifest with the digest ", digest, " instead of ",
                            printable(other), "; refused"));
    return Document{std::move(answer.body), answer.header("content-type"), digest, answer.header("etag")};
}

Document Registry::get_manifest(const std::string& tag_or_digest) {
    return impl_->at_first([&](RegistryClient& host, const RetryRules& rules) {
        HttpAnswer answer = host.get({.path = "manifests/" + tag_or_digest,
                                      .what = impl_->what(),
                                      .accept = accepted_manifests(),
                                      .limit = document_limit},
                                     rules);
        if (answer.status != 200) refuse_manifest(host, answer, impl_->what());
        refuse_page(answer, impl_->what(), cat("registry ", host.host()));
        return impl_->verified(std::move(answer), tag_or_digest);
    });
}

/// Nothing for "there is none", in the words of those registries that have no such interface too.
std::optional<HttpAnswer> Registry::Impl::find(const std::string& path, const std::string& about) {
    return at_first([&](RegistryClient& host, const RetryRules& rules) -> std::optional<HttpAnswer> {
        std::string object = cat(what(), ", ", about);
        HttpAnswer answer = host.get({.path = path,
                                      .what = object,
                                      .accept = "application/vnd.oci.image.manifest.v1+json, "
                                                "application/vnd.oci.image.index.v1+json",
                                      .limit = document_limit},
                                     rules);
        bool nothing = answer.status == 404 || answer.status == 400 || answer.status == 405 || answer.status == 501;
        if (nothing && &host == hosts.back().get()) return std::nullopt;
        if (answer.status != 200) host.refuse_answer(answer, object);
        return answer;
    });
}

std::optional<Document> Registry::find_attached(const std::string& tag_or_digest, const std::string& kind) {
    auto answer = impl_->find("manifests/" + tag_or_digest, cat(kind, " at ", tag_or_digest));
    if (!answer) return std::nullopt;
    return impl_->verified(std::move(*answer), tag_or_digest);
}

std::optional<std::string> Registry::find_referrers(const Digest& manifest) {
    auto answer = impl_->find("referrers/" + manifest.text(), "referrers of " + manifest.text());
    // A registry without that API may answer with a page for people.
    if (!answer || answer->header("content-type").find("image.index") == std::string::npos) return std::nullopt;
    return std::move(answer->body);
}

void Registry::put_blob(const std::string& bytes) {
    impl_->hosts.back()->put_blob(sha256_of(bytes), bytes, {}, impl_->what(), impl_->options.retry);
}

bool Registry::put_blob(const Digest& digest, const FileBody& file) {
    return impl_->hosts.back()->put_blob(digest, "", file, impl_->what(), impl_->options.retry);
}

bool Registry::put_manifest(const std::string& tag, const std::string& type, const std::string& bytes) {
    RegistryClient& host = *impl_->hosts.back();
    HttpAnswer answer = host.get(
        {.path = "manifests/" + tag, .what = impl_->what(), .method = "PUT", .body = bytes, .type = type},
        impl_->options.retry);
    if (answer.status != 201) host.refuse_answer(answer, impl_->what());
    return !answer.header("oci-subject").empty();
}

std::vector<std::string> Registry::list_tags() {
    constexpr size_t tags_limit = 100'000;
    RegistryClient& host = *impl_->hosts.back();
    std::string object = cat("the tags of ", impl_->reference.registry, "/", impl_->reference.name);
    std::vector<std::string> out;
    for (std::string path = "tags/list?n=1000"; !path.empty();) {
        HttpAnswer answer = host.get({.path = path, .what = object, .limit = document_limit}, impl_->options.retry);
        if (answer.status != 200) host.refuse_answer(answer, object);
        nlohmann::json page = parse_json(answer.body, object);
        std::vector<std::string> tags =
            page.is_object() ? strings_member(page, "tags", object) : std::vector<std::string>();
        out.insert(out.end(), tags.begin(), tags.end());
        if (out.size() > tags_limit) throw Error(cat(object, ": more than ", tags_limit, " of them; refused"));
        // Registries that send all at once have no next page; the address of one is not followed, only asked for.
        bool has_more = !tags.empty() && answer.header("link").find("next") != std::string::npos;
        path = has_more ? cat("tags/list?n=1000&last=", tags.back()) : "";
    }
    return out;
}

void Registry::delete_manifest(const Digest& digest) {
    RegistryClient& host = *impl_->hosts.back();
    std::string object = cat("removing ", digest, " from ", impl_->reference.registry, "/", impl_->reference.name);
    HttpAnswer answer =
        host.get({.path = "manifests/" + digest.text(), .what = object, .method = "DELETE"}, impl_->options.retry);
    if (answer.status == 405)
        throw Error(cat(object, ": the registry lets nothing be removed; see its settings (storage.delete.enabled in "
                                "docker-registry's)"));
    if (answer.status != 202 && answer.status != 200 && answer.status != 404) host.refuse_answer(answer, object);
}

void Registry::Impl::stream_from(RegistryClient& host, const RetryRules& rules, const Descriptor& blob,
                                 const Sink& sink, const uint64_t& received, uint64_t until) const {
    uint64_t end = until > 0 ? until : blob.size;
    // A transfer can break after its last byte.
    if (received == end && end > 0) return;
    std::string object = cat(what(), ", blob ", blob.digest);
    uint64_t before = 0;
    HttpAnswer answer;
    do {
        before = received;
        answer = host.get(
            {.path = "blobs/" + blob.digest.text(), .what = object, .sink = sink, .received = &received,
             .until = until},
            rules);
        // A part may be sent that is shorter than what was asked for.
    } while (answer.status == 206 && received < end && received > before);
    if (answer.status != 200 && answer.status != 206) host.refuse_answer(answer, object);
    if (received != end)
        throw Error(cat(what(), ": the registry sent ", received, " bytes of ", blob.digest, " instead of ", end,
                        "; refused"));
}

/// `until` is 0 for the whole of a blob.
void Registry::Impl::stream(const Descriptor& blob, uint64_t from, uint64_t until, const Sink& sink) {
    uint64_t received = from, end = until > 0 ? until : blob.size;
    bool sink_failed = false;
    RegistryClient* sender = nullptr;
    senders.clear();
    auto take = [&](std::string_view data) {
        senders.insert(sender);
        sink_failed = true;
        if (data.size() > end - received)
            throw Error(cat(what(), ": the registry sent ", received + data.size(), " or more bytes of ", blob.digest,
                            " instead of ", end, "; refused"));
        sink(data);
        received += data.size();
        sink_failed = false;
    };
    auto bring = [&](RegistryClient& host, const RetryRules& rules) {
        sender = &host;
        stream_from(host, rules, blob, take, received, until);
    };
    at_first(bring, sink_failed);
}

void Registry::stream_blob(const Descriptor& blob, const Sink& sink) { impl_->stream(blob, 0, 0, sink); }

void Registry::read_range(const Descriptor& blob, uint64_t from, uint64_t size, const Sink& sink) {
    if (size > 0) impl_->stream(blob, from, from + size, sink);
}

std::string Registry::pass_over_senders() {
    std::string names;
    for (RegistryClient* sender : impl_->senders) {
        if (sender == impl_->hosts.back().get()) continue;
        sender->session()->given_up = true;
        names += cat(names.empty() ? "" : ", ", sender->host());
    }
    return names;
}

std::string Registry::get_blob(const Descriptor& blob) {
    for (;;) {
        std::string bytes = blob.data.value_or("");
        if (!blob.data)
            stream_blob(blob, [&](std::string_view data) { bytes += data; });
        Digest digest = sha256_of(bytes);
        if (digest == blob.digest) return bytes;
        std::string mirrors = blob.data ? "" : pass_over_senders();
        std::string line = cat(impl_->what(), ": the blob ", blob.digest, " has the digest ", digest);
        if (mirrors.empty()) throw Error(line + "; refused");
        if (impl_->options.notice) impl_->options.notice(cat("mirror ", mirrors, " passed over: ", line));
    }
}

void check_login(const std::string& host, RegistryOptions options, const Credentials& credentials) {
    plan::Reference nothing;
    nothing.registry = host;
    options.credentials = [&](const LoginQuery&) { return CredentialSearch{credentials, {}, {}}; };
    options.history = std::make_shared<LoginHistory>();
    options.anonymous = false;
    RegistryClient client(nothing, host, options, std::make_shared<Session>());
    std::string what = cat("login to ", printable(host));
    HttpAnswer answer = client.get({.path = "", .what = what, .limit = 64 << 10}, options.retry);
    if (answer.status != 200) client.refuse_answer(answer, what);
}

}  // namespace berth::oci
