#include "runtime/image/registry.hh"

#include <mutex>

#include "runtime/base/text.hh"
#include "runtime/image/digest.hh"
#include "runtime/image/registry_error.hh"

namespace berth::image {

namespace {

constexpr int redirect_limit = 5;
constexpr size_t token_answer_limit = 64 << 10;

/// The token that all siblings use.
struct Session {
    std::mutex mutex;
    std::string token;

    std::string get() {
        std::lock_guard lock(mutex);
        return token;
    }
    void set(std::string value) {
        std::lock_guard lock(mutex);
        token = std::move(value);
    }
};

bool is_redirect(long status) { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }

}  // namespace

struct Registry::Impl {
    plan::Reference reference;
    RegistryOptions options;
    std::shared_ptr<Session> session = std::make_shared<Session>();
    Http http;
    Origin origin;
    std::string base;  ///< ".../v2/<name>/"

    Impl(const plan::Reference& ref, RegistryOptions opts);
    std::string what() const { return cat("image ", printable(reference.text(), 1024)); }
    std::string server() const { return cat("registry ", origin.authority()); }
    bool plain_allowed(const Origin& target) const {
        return target.is_loopback() || options.plain_http.contains(target.authority()) || options.plain_http.contains(cat(target.host, ":", target.port));
    }

    HttpAnswer get(const std::string& path, bool head, const std::string& accept, size_t limit, const Sink& sink);
    HttpAnswer follow(HttpRequest request, size_t limit, const Sink& sink, Origin& last);
    std::string next_hop(const std::string& url, const std::string& location) const;
    bool authenticate(const HttpAnswer& answer);
    HttpAnswer exchange(const HttpRequest& request, size_t limit, const Sink& sink);
};

Registry::Impl::Impl(const plan::Reference& ref, RegistryOptions opts) : reference(ref), options(std::move(opts)), http(options.limits, options.stop) {
    origin = origin_of(cat("https://", reference.registry));
    bool plain = options.plain_http.contains(reference.registry) || origin.is_loopback();
    std::string url = cat(plain ? "http" : "https", "://", reference.registry);
    origin = origin_of(url);
    base = cat(url, "/v2/", reference.name, "/");
}

/// One request, with the object named in what can go wrong.
HttpAnswer Registry::Impl::exchange(const HttpRequest& request, size_t limit, const Sink& sink) {
    try {
        return http.exchange(request, limit, sink);
    } catch (const Unreachable& problem) {
        throw Unreachable(cat(what(), ": no complete answer from ", origin_of(request.url).authority(), ": ", problem.what()));
    } catch (const TooLarge& problem) {
        throw Error(cat(what(), ": ", problem.what(), "; refused"));
    }
}

std::string Registry::Impl::next_hop(const std::string& url, const std::string& location) const {
    std::string target;
    try {
        target = resolved(url, location);
        Origin from = origin_of(url);
        Origin to = origin_of(target);
        bool plain = to.scheme == "http";
        if (plain && (from.scheme == "https" || !plain_allowed(to))) throw Error(cat("redirected to ", printable(target), ", which is not encrypted"));
        if (to.is_link_local()) throw Error(cat("redirected to the link-local address ", to.host));
    } catch (const Error& problem) {
        throw Error(cat(what(), ": ", problem.what(), "; refused"));
    }
    return target;
}

HttpAnswer Registry::Impl::follow(HttpRequest request, size_t limit, const Sink& sink, Origin& last) {
    std::vector<std::string> headers = request.headers;
    for (int hop = 0;; ++hop) {
        last = origin_of(request.url);
        request.headers = headers;
        // The token is the registry's business alone, be the other host an honest one.
        std::string token = last == origin ? session->get() : "";
        if (!token.empty()) request.headers.push_back(cat("Authorization: Bearer ", token));
        HttpAnswer answer = exchange(request, limit, sink);
        if (!is_redirect(answer.status)) return answer;
        if (hop == redirect_limit) throw Error(cat(what(), ": redirected more than ", redirect_limit, " times; refused"));
        request.url = next_hop(request.url, answer.header("location"));
    }
}

/// Gets a token for the challenge in a 401; false when it asks for something else.
bool Registry::Impl::authenticate(const HttpAnswer& answer) {
    for (const Challenge& challenge : parse_challenges(answer.header("www-authenticate"))) {
        if (challenge.scheme != "bearer") continue;
        HttpRequest request;
        try {
            request.url = token_url(challenge, origin, cat("repository:", reference.name, ":pull"), [&](const Origin& realm) { return plain_allowed(realm); });
        } catch (const Error& problem) {
            throw Error(cat(what(), ": ", problem.what()));
        }
        request.ca = options.ca;
        HttpAnswer reply = exchange(request, token_answer_limit, {});
        if (reply.status != 200) refuse(reply, what(), cat("token server ", origin_of(request.url).authority()));
        try {
            session->set(parse_token(reply.body));
        } catch (const Error& problem) {
            throw Error(cat(what(), ": ", problem.what()));
        }
        return true;
    }
    return false;
}

HttpAnswer Registry::Impl::get(const std::string& path, bool head, const std::string& accept, size_t limit, const Sink& sink) {
    HttpRequest request{base + path, head, {}, options.ca};
    if (!accept.empty()) request.headers.push_back("Accept: " + accept);
    Origin last;
    HttpAnswer answer = follow(request, limit, sink, last);
    // Once: a registry that is not content with the token it asked for will not be with the next one.
    if (answer.status == 401 && last == origin && authenticate(answer)) answer = follow(request, limit, sink, last);
    return answer;
}

Registry::Registry(const plan::Reference& reference, RegistryOptions options) : impl_(std::make_unique<Impl>(reference, std::move(options))) {}
Registry::Registry(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry::~Registry() = default;

Registry Registry::sibling() const {
    auto impl = std::make_unique<Impl>(impl_->reference, impl_->options);
    impl->session = impl_->session;
    return Registry(std::move(impl));
}

std::optional<Resolution> Registry::head_manifest(const std::string& tag_or_digest) {
    HttpAnswer answer = impl_->get("manifests/" + tag_or_digest, true, accepted_manifests, 0, {});
    // Some registries and proxies know GET alone.
    if (answer.status == 405 || answer.status == 501) return std::nullopt;
    if (answer.status != 200) refuse(answer, impl_->what(), impl_->server());
    std::string digest = answer.header("docker-content-digest");
    if (digest.empty()) return std::nullopt;
    if (!plan::is_digest(digest)) throw Error(cat(impl_->what(), ": the registry names it by \"", printable(digest), "\", which is no sha256 digest"));
    return Resolution{digest, answer.header("etag")};
}

Document Registry::get_manifest(const std::string& tag_or_digest) {
    HttpAnswer answer = impl_->get("manifests/" + tag_or_digest, false, accepted_manifests, document_limit, {});
    if (answer.status != 200) refuse(answer, impl_->what(), impl_->server());
    std::string digest = sha256_of(answer.body);
    std::string told = answer.header("docker-content-digest");
    std::string wanted = plan::is_digest(tag_or_digest) ? tag_or_digest : told;
    for (const std::string& other : {told, wanted})
        if (!other.empty() && other != digest)
            throw Error(cat(impl_->what(), ": the registry sent a manifest with the digest ", digest, " instead of ", printable(other), "; refused"));
    return {std::move(answer.body), answer.header("content-type"), digest, answer.header("etag")};
}

void Registry::stream_blob(const Descriptor& blob, const Sink& sink) {
    uint64_t received = 0;
    auto wrong_size = [&](uint64_t size, const char* more) {
        return Error(cat(impl_->what(), ": the registry sent ", size, more, " bytes of ", blob.digest, " instead of ", blob.size, "; refused"));
    };
    HttpAnswer answer = impl_->get("blobs/" + blob.digest, false, "", 0, [&](const void* data, size_t size) {
        received += size;
        if (received > blob.size) throw wrong_size(received, " or more");
        sink(data, size);
    });
    if (answer.status != 200) refuse(answer, cat(impl_->what(), ", blob ", blob.digest), impl_->server());
    if (received != blob.size) throw wrong_size(received, "");
}

std::string Registry::get_blob(const Descriptor& blob) {
    std::string bytes = blob.data.value_or("");
    if (!blob.data) stream_blob(blob, [&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
    std::string digest = sha256_of(bytes);
    if (digest != blob.digest) throw Error(cat(impl_->what(), ": the blob ", blob.digest, " has the digest ", digest, "; refused"));
    return bytes;
}

}  // namespace berth::image
