// The HTTP interface of docker and podman over their unix sockets. Source: Docker Engine API v1.24 and later, which
// podman serves too.
#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/source/local.hh"

namespace berth::oci {

namespace {

using nlohmann::json;

constexpr size_t answer_limit = 4 << 20;

struct FreeCurl {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

/// One GET, whose body goes to `take`.
struct Exchange {
    const Daemon& daemon;
    std::string what;
    std::function<void(long status, std::string_view bytes)> take;
    CURL* curl = nullptr;
    std::exception_ptr failure = {};

    long get(const std::string& path);
    [[noreturn]] void fail(CURLcode code) const;
};

size_t receive(char* data, size_t, size_t size, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    try {
        long status = 0;
        curl_easy_getinfo(exchange.curl, CURLINFO_RESPONSE_CODE, &status);
        exchange.take(status, {data, size});
        return size;
    } catch (...) {
        // An exception must not pass through libcurl.
        exchange.failure = std::current_exception();
        return 0;
    }
}

long Exchange::get(const std::string& path) {
    std::unique_ptr<CURL, FreeCurl> handle(curl_easy_init());
    if (!handle) throw Error(cat(what, ": no memory for a connection to ", daemon.program));
    curl = handle.get();
    std::string url = "http://localhost" + path;
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, daemon.socket.c_str());
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    // A daemon may think for long before it exports the first byte.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 300L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    CURLcode code = curl_easy_perform(curl);
    if (failure) std::rethrow_exception(failure);
    if (code != CURLE_OK) fail(code);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

void Exchange::fail(CURLcode code) const {
    long number = 0;
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    std::string socket = printable(daemon.socket, 4096);
    if (code != CURLE_COULDNT_CONNECT)
        throw Error(cat(what, ": asking ", daemon.program, " at ", socket, ": ", curl_easy_strerror(code)));
    if (number == EACCES || number == EPERM)
        throw Error(cat(what, ": you may not use ", daemon.program, " at ", socket, " (",
                        reason(static_cast<int>(number)), "); save the image and use docker-archive:FILE"));
    std::string remedy = daemon.program == "podman"
                             ? "start it with systemctl --user start podman.socket"
                             : "start it, or save the image elsewhere and use docker-archive:FILE";
    throw Error(cat(what, ": ", daemon.program, " does not listen at ", socket, " on this node; ", remedy));
}

/// The message of an answer that is an error.
std::string message_of(const std::string& body) {
    try {
        json answer = parse_json(body, "the answer");
        if (answer.is_object()) return printable(string_member(answer, "message", "the answer").value_or(""));
    } catch (const Error&) {
    }
    return printable(body);
}

[[noreturn]] void refuse(const Daemon& daemon, const std::string& what, const std::string& name, long status,
                         const std::string& body) {
    if (status == 404)
        throw Error(cat(what, ": ", daemon.program, " has no such image; run ", daemon.program, " pull ",
                        printable(name), " first"));
    throw Error(cat(what, ": ", daemon.program, " answers with status ", status, ": ", message_of(body)));
}

}  // namespace

std::string find_in_daemon(const Daemon& daemon, const plan::Reference& reference) {
    std::string what = cat("image ", printable(reference.text(), 1024)), body;
    auto keep = [&](long, std::string_view bytes) {
        if (body.size() + bytes.size() > answer_limit)
            throw Error(cat(what, ": the answer of ", daemon.program, " is larger than ", human_bytes(answer_limit)));
        body += bytes;
    };
    long status = Exchange{daemon, what, keep}.get(cat("/images/", reference.selector, "/json"));
    if (status != 200) refuse(daemon, what, reference.selector, status, body);
    json answer = parse_json(body, cat(what, ", the answer of ", daemon.program));
    std::string id = answer.is_object() ? string_member(answer, "Id", what).value_or("") : "";
    if (!id.starts_with("sha256:")) id = "sha256:" + id;
    auto digest = Digest::parse(id);
    if (!digest)
        throw Error(
            cat(what, ": ", daemon.program, " answers with the Id ", printable(id), ", which is no digest; refused"));
    return digest->hex();
}

Fd export_from_daemon(const Daemon& daemon, const std::string& id, const std::string& what, const Scratch& scratch,
                      const Advance& advance) {
    Fd out = scratch();
    std::string body;
    auto take = [&](long status, std::string_view bytes) {
        if (status == 200) {
            sys::write_all(out.get(), bytes, "the image to the store's tmp folder");
            if (advance) advance(bytes.size());
            return;
        }
        body += bytes.substr(0, std::min(bytes.size(), size_t{64 << 10} - std::min(body.size(), size_t{64 << 10})));
    };
    long status = Exchange{daemon, what, take}.get(cat("/images/", id, "/get"));
    if (status != 200) refuse(daemon, what, id, status, body);
    return out;
}

}  // namespace berth::oci
