// What a registry's headers and token server say: challenges, ranges, delays, redirects, tokens. The input's first line
// is the header, the second a URL.
#include <stdexcept>

#include "runtime/oci/auth/auth.hh"
#include "runtime/oci/registry/http.hh"
#include "runtime/oci/registry/retry.hh"
#include "tests/hostile/target.hh"

namespace {

void run(std::string_view input) {
    using namespace berth::oci;
    using berth::hostile::refusing;
    std::string_view header = input.substr(0, input.find('\n'));
    std::string other(input.substr(std::min(input.size(), header.size() + 1)));
    for (const Challenge& challenge : parse_challenges(header))
        refusing([&] {
            std::string url = token_url(challenge, origin_of("https://registry.example"), "repository:a/b:pull",
                                        [](const Origin&) { return false; });
            refresh_form(url, "token");
            Origin origin = origin_of(url);
            if (origin.scheme != "https" || origin.is_link_local())
                throw std::logic_error("a token server that no login may go to");
        });
    range_start(header);
    parse_retry_after(header, 1'700'000'000);
    refusing([&] { origin_of(resolved("https://registry.example/v2/a/blobs/1", other)).is_loopback(); });
    refusing([&] { parse_token(other); });
}

const berth::hostile::Registration registration("http", run);

}  // namespace
