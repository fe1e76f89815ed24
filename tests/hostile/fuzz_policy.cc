// A site's policy.json, its registries.d, and the names that both have in them.
#include "runtime/trust/lookaside.hh"
#include "runtime/trust/policy/policy.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth::trust;

/// Whatever is read is found again by the rules, and a name stays what it is.
void check_name(std::string_view text) {
    auto name = parse_image_name(text);
    if (!name) return;
    auto again = parse_image_name(name->text());
    berth::hostile::must(again && again->text() == name->text(), "a name's full form is another name");
    for (auto kind : {SignedIdentity::Kind::match_exact, SignedIdentity::Kind::match_repo_digest_or_exact})
        berth::hostile::must(matches({kind}, name, name->text()) != name->is_name_only(), "a name is not itself");
}

void check_policy(const Policy& policy, const std::optional<ImageName>& name) {
    Subject subject = name ? subject_of(*name) : subject_of("dir", "/a/b");
    berth::hostile::must(!rule_for(policy, subject).requirements->empty(), "an image that nothing is wanted of");
}

void run(std::string_view input) {
    unsigned choice = berth::hostile::take_byte(input) % 2;
    std::string_view name = berth::hostile::take_line(input);
    check_name(name);
    berth::hostile::refusing([&] {
        if (choice == 0)
            check_policy(parse_policy(input, "policy"), parse_image_name(name));
        else
            lookaside_of(parse_lookaside({{"file", std::string(input)}}), subject_of("dir", "/a"), "file:///x");
    });
}

const berth::hostile::Registration registration("policy", run);

}  // namespace
