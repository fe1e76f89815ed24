// The head of a registry's answer and what is made of its fields, and of the body of one that is an error. The first
// two bytes of an input are the status; an empty line ends the head.
#include "runtime/base/digest.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/auth/auth.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/registry/http.hh"
#include "runtime/oci/registry/retry.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

constexpr int64_t now = 1'700'000'000;

void check_fields(const oci::HttpAnswer& answer, size_t limit) {
    size_t size = 0;
    for (const auto& [name, value] : answer.headers) {
        must(lower(name) == name, "a name is not in lower case");
        must((name + value).find('\n') == std::string::npos, "a field has a line end in it");
        size += name.size() + value.size();
    }
    must(size <= 3 * limit, "the fields are longer than the head");
}

void use_fields(const oci::HttpAnswer& answer) {
    for (const oci::Challenge& challenge : oci::parse_challenges(answer.header("www-authenticate")))
        must(!challenge.scheme.empty() && lower(challenge.scheme) == challenge.scheme, "a challenge without a scheme");
    if (auto start = oci::range_start(answer.header("content-range"))) must(*start <= INT64_MAX, "a range too far");
    if (auto after = oci::parse_retry_after(answer.header("retry-after"), now))
        must(after->count() >= 0 && after->count() <= 1'000'000'000, "a delay out of range");
    if (auto digest = Digest::parse(answer.header("docker-content-digest")))
        must(Digest::parse(digest->text()) == digest, "a digest that is written is another one");
}

void run(std::string_view input) {
    oci::HttpAnswer answer;
    answer.status = hostile::take_byte(input) << 8;
    answer.status = (answer.status + hostile::take_byte(input)) % 1000;
    size_t limit = input.size();
    while (!input.empty()) {
        // libcurl gives a line with its end.
        size_t end = input.find('\n');
        std::string_view line = hostile::take(input, end == input.npos ? end : end + 1);
        if (trimmed(line).empty()) break;
        oci::take_head_line(line, answer.headers);
    }
    answer.body = input;
    check_fields(answer, limit);
    use_fields(answer);
    std::string line = oci::refusal(answer, "pulling a", "registry b", "", now);
    must(hostile::is_plain_line(line) && line.size() < 2048, "an error shows the body without end or as it is");
}

const hostile::Registration registration("http_head", run);

}  // namespace
