#include "runtime/pull/nodes/peer/chunk_client.hh"

#include <curl/curl.h>

#include <exception>
#include <memory>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/nodes/chunks/chunk_stream.hh"

namespace berth::pull::nodes {

namespace {

constexpr long connect_ms = 5000;
/// More than a node has neighbours.
constexpr long kept_connections = 64;

/// What the callbacks of one request work with.
struct Transfer {
    const ChunkClient::Request& request;
    ChunkReader& reader;
    bool is_silent = false;
    std::exception_ptr failure = {};

    static size_t take(char* data, size_t one, size_t count, void* its) {
        auto& self = *static_cast<Transfer*>(its);
        try {
            return self.reader.take({data, one * count}) ? one * count : 0;
        } catch (...) {
            self.failure = std::current_exception();
            return 0;
        }
    }
    static int progress(void* its, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        auto& self = *static_cast<Transfer*>(its);
        if (self.request.should_leave()) return 1;
        self.is_silent = ChunkReader::Clock::now() - self.reader.heard() > longest_silence;
        return self.is_silent ? 1 : 0;
    }
};

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

Headers headers_of(const ChunkClient::Request& request) {
    Headers out(curl_slist_append(nullptr, cat("Authorization: Bearer ", request.token).c_str()), curl_slist_free_all);
    if (!request.here.empty()) curl_slist_append(out.get(), cat(here_header, ": ", request.here).c_str());
    return out;
}

std::string address_of(const ChunkClient::Request& request) {
    const Peer& peer = request.peer;
    std::string host = peer.address.find(':') == std::string::npos ? peer.address : cat('[', peer.address, ']');
    return cat("https://", host, ':', peer.port, request.path);
}

}  // namespace

ChunkClient::ChunkClient() : curl_(curl_easy_init()) {
    if (curl_ == nullptr) throw Error("starting libcurl: out of memory");
    curl_easy_setopt(curl_, CURLOPT_PROXY, "");
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    curl_easy_setopt(curl_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(curl_, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(curl_, CURLOPT_MAXCONNECTS, kept_connections);
    curl_easy_setopt(curl_, CURLOPT_BUFFERSIZE, 64L << 10);
    // The key is compared; a certificate that somebody signed there is none.
    curl_easy_setopt(curl_, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl_, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, Transfer::take);
    curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, Transfer::progress);
    curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
}

ChunkClient::~ChunkClient() {
    curl_easy_cleanup(curl_);
}

ChunkClient::Answer ChunkClient::get(const Request& request, ChunkReader& reader) try {
    if (!request.peer.key.starts_with("sha256//")) return {"it has told no key"};
    Transfer transfer{request, reader};
    Headers headers = headers_of(request);
    curl_easy_setopt(curl_, CURLOPT_URL, address_of(request).c_str());
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl_, CURLOPT_PINNEDPUBLICKEY, request.peer.key.c_str());
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, &transfer);
    CURLcode code = curl_easy_perform(curl_);
    // They end with this function.
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, nullptr);
    if (transfer.failure) std::rethrow_exception(transfer.failure);
    if (reader.is_complete()) return {};
    if (!reader.problem().empty()) return {reader.problem()};
    if (transfer.is_silent) return {"it fell silent", true};
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_HTTP_RETURNED_ERROR) return {cat("it answers with ", status)};
    return {code == CURLE_OK ? "it ended in the middle" : curl_easy_strerror(code), true};
} catch (const WrongChunk& problem) {
    return {problem.what()};
}

}  // namespace berth::pull::nodes
