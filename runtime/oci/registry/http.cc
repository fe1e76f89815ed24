#include "runtime/oci/registry/http.hh"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <mutex>

#include "runtime/base/text.hh"
#include "runtime/oci/registry/authorities.hh"
#include "runtime/oci/url.hh"

namespace berth::oci {

namespace {

constexpr size_t header_limit = 64 << 10;

void start_curl() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
            throw Error("starting libcurl: out of memory or a broken TLS library");
    });
}

/// Where the callbacks of one exchange find their way. No exception may pass through libcurl, so it waits here.
struct Exchange {
    CURL* curl = nullptr;
    const Sink* sink = nullptr;
    const std::atomic<bool>* stop = nullptr;
    size_t body_limit = 0;
    size_t error_limit = 0;
    uint64_t from = 0;
    bool is_range = false;  ///< nothing but a part is wanted
    size_t header_bytes = 0;
    bool body_full = false;
    const FileBody* file = nullptr;
    uint64_t file_offset = 0;
    std::optional<uint64_t> skip = {};  ///< bytes still to drop before the sink's first; unknown until the body starts
    HttpAnswer answer = {};
    std::exception_ptr failure = {};
};

long status_of(CURL* curl) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/// Gives the sink its part of a body that may start before the byte that is wanted.
void feed(Exchange& exchange, std::string_view data, bool partial) {
    if (!exchange.skip)
        exchange.skip = exchange.from - (partial ? *range_start(exchange.answer.header("content-range")) : 0);
    size_t dropped = std::min<uint64_t>(*exchange.skip, data.size());
    *exchange.skip -= dropped;
    if (data.size() > dropped) (*exchange.sink)(data.substr(dropped));
}

/// True for a 206 that holds the byte that is wanted, or what comes before it.
bool is_usable_part(const Exchange& exchange) {
    if ((exchange.from == 0 && !exchange.is_range) || status_of(exchange.curl) != 206) return false;
    auto start = range_start(exchange.answer.header("content-range"));
    return start && (exchange.is_range ? *start == exchange.from : *start <= exchange.from);
}

size_t take_body(char* data, size_t one, size_t count, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    size_t size = one * count;
    bool good = status_of(exchange.curl) == 200;
    try {
        bool partial = is_usable_part(exchange);
        if (exchange.is_range && !partial && (good || status_of(exchange.curl) == 206))
            throw NoRanges("the server sends no parts of blobs");
        if ((good || partial) && *exchange.sink) {
            feed(exchange, {data, size}, partial);
            return size;
        }
        size_t room = (good ? exchange.body_limit : exchange.error_limit) - exchange.answer.body.size();
        exchange.answer.body.append(data, std::min(size, room));
        exchange.body_full = size > room;
        return exchange.body_full ? 0 : size;
    } catch (...) {
        exchange.failure = std::current_exception();
        return 0;
    }
}

size_t take_header(char* data, size_t one, size_t count, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    std::string_view line(data, one * count);
    try {
        exchange.header_bytes += line.size();
        if (exchange.header_bytes > header_limit)
            throw Unreachable(cat("the answer has more than ", human_bytes(header_limit), " of headers"));
        take_head_line(line, exchange.answer.headers);
        return line.size();
    } catch (...) {
        exchange.failure = std::current_exception();
        return 0;
    }
}

size_t send_body(char* out, size_t one, size_t count, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    const FileBody& file = *exchange.file;
    size_t wanted = std::min<uint64_t>(one * count, file.size - exchange.file_offset);
    ssize_t got = ::pread(file.fd, out, wanted, static_cast<off_t>(exchange.file_offset));
    try {
        if (got < 0 || (got == 0 && wanted > 0))
            throw SysError("reading what is sent to a registry", got < 0 ? errno : EIO);
        exchange.file_offset += static_cast<uint64_t>(got);
        if (file.sent) file.sent(static_cast<uint64_t>(got));
        return static_cast<size_t>(got);
    } catch (...) {
        exchange.failure = std::current_exception();
        return CURL_READFUNC_ABORT;
    }
}

/// libcurl begins again on a connection that the server has closed meanwhile.
int rewind_body(void* user, curl_off_t offset, int origin) {
    if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
    static_cast<Exchange*>(user)->file_offset = static_cast<uint64_t>(offset);
    return CURL_SEEKFUNC_OK;
}

int check_stop(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& exchange = *static_cast<Exchange*>(user);
    return exchange.stop != nullptr && exchange.stop->load() ? 1 : 0;
}

}  // namespace

struct Http::Impl {
    CURL* curl = nullptr;
    HttpLimits limits;
    const std::atomic<bool>* stop = nullptr;
    char reason[CURL_ERROR_SIZE] = "";

    void set_common(Exchange& exchange);
    void set_request(const HttpRequest& request, curl_slist* headers);
    void set_body(const HttpRequest& request, Exchange& exchange);
};

Http::Http(const HttpLimits& limits, const std::atomic<bool>* stop) : impl_(std::make_unique<Impl>()) {
    start_curl();
    impl_->limits = limits;
    impl_->stop = stop;
    impl_->curl = curl_easy_init();
    if (impl_->curl == nullptr) throw Error("starting libcurl: out of memory");
}

Http::~Http() { curl_easy_cleanup(impl_->curl); }

void Http::Impl::set_common(Exchange& exchange) {
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, limits.connect_seconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, limits.slow_bytes);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, limits.slow_seconds);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_stop);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

void Http::Impl::set_request(const HttpRequest& request, curl_slist* headers) {
    curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    // A proxy of the environment is for the world outside, not for this machine.
    if (origin_of(request.url).is_loopback()) {
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
    } else if (!request.proxy.empty()) {
        curl_easy_setopt(curl, CURLOPT_PROXY, request.proxy.c_str());
        curl_easy_setopt(curl, CURLOPT_NOPROXY, request.no_proxy.c_str());
    }
    if (request.form) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.form->size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.form->c_str());
    }
    const std::string& ca = request.ca.empty() ? authorities_here() : request.ca;
    if (!ca.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca.c_str());
}

void Http::Impl::set_body(const HttpRequest& request, Exchange& exchange) {
    if (request.method.empty()) return;
    if (request.file.fd < 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    } else {
        exchange.file = &request.file;
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.file.size));
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_body);
        curl_easy_setopt(curl, CURLOPT_READDATA, &exchange);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, rewind_body);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, &exchange);
        curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

HttpAnswer Http::exchange(const HttpRequest& request, size_t body_limit, const Sink& sink) {
    Exchange exchange{.curl = impl_->curl,
                      .sink = &sink,
                      .stop = impl_->stop,
                      .body_limit = body_limit,
                      .error_limit = impl_->limits.body_bytes,
                      .from = request.from,
                      .is_range = request.until > 0};
    impl_->reason[0] = '\0';
    impl_->set_common(exchange);
    curl_slist* headers = nullptr;
    for (const std::string& header : request.headers) headers = curl_slist_append(headers, header.c_str());
    std::string last = request.until > 0 ? cat(request.until - 1) : "";
    if ((request.from > 0 && request.by_range) || request.until > 0)
        headers = curl_slist_append(headers, cat("Range: bytes=", request.from, "-", last).c_str());
    // Without it libcurl waits a second for servers that do not know "Expect: 100-continue".
    if (request.file.fd >= 0) headers = curl_slist_append(headers, "Expect:");
    impl_->set_request(request, headers);
    impl_->set_body(request, exchange);
    CURLcode code = curl_easy_perform(impl_->curl);
    exchange.answer.status = status_of(impl_->curl);
    curl_slist_free_all(headers);
    if (exchange.failure) std::rethrow_exception(exchange.failure);
    if (code == CURLE_OK) return exchange.answer;
    if (exchange.body_full && exchange.answer.status != 200) return exchange.answer;
    if (exchange.body_full) throw TooLarge(cat("the answer is larger than ", human_bytes(body_limit)));
    if (code == CURLE_ABORTED_BY_CALLBACK) throw Error("stopped");
    bool lasting =
        code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CACERT_BADFILE;
    std::string reason = impl_->reason[0] != '\0' ? printable(impl_->reason) : std::string(curl_easy_strerror(code));
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) throw NotConnected(reason);
    throw Unreachable(reason, lasting);
}

void take_head_line(std::string_view line, std::map<std::string, std::string>& headers) {
    // A 100 Continue is followed by another head.
    if (line.starts_with("HTTP/")) headers.clear();
    size_t colon = line.find(':');
    if (colon == line.npos) return;
    std::string& value = headers[lower(line.substr(0, colon))];
    if (!value.empty()) value += ", ";
    value += trimmed(line.substr(colon + 1));
}

std::optional<uint64_t> range_start(std::string_view content_range) {
    std::string text = lower(trimmed(content_range));
    uint64_t first = 0;
    size_t dash = text.find('-');
    if (!text.starts_with("bytes ") || dash == text.npos ||
        !parse_number(trimmed(text.substr(6, dash - 6)), INT64_MAX, first))
        return std::nullopt;
    return first;
}

std::string HttpAnswer::header(const std::string& name) const {
    auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

}  // namespace berth::oci
