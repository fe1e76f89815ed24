// What is attached to images as signatures: payloads, bundles with their statements, manifests and lists of referrers,
// keys, GPG's armor, what gpgv says, and what the store keeps of them. The first byte chooses.
#include "runtime/base/text.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/trust/remembered.hh"
#include "runtime/trust/sif_envelope.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/bundle.hh"
#include "runtime/trust/signature/gpg.hh"
#include "runtime/trust/signature/key.hh"
#include "runtime/trust/signature/payload.hh"
#include "runtime/trust/signature/sif_statement.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth::trust;
using berth::cat;

void parse(unsigned choice, std::string_view input) {
    switch (choice) {
        case 0: parse_payload(input, PayloadKind::cosign, "payload"); return;
        case 1: parse_payload(input, PayloadKind::gpg, "payload"); return;
        case 2: {
            Bundle bundle = parse_bundle(input, "bundle");
            berth::hostile::must(!bundle.signatures.empty(), "a bundle without a signature");
            if (!bundle.message) parse_statement(bundle.statement, "statement");
            return;
        }
        case 3: parse_statement(input, "statement"); return;
        case 4: {
            auto attachments = parse_attachments(input, "attachments");
            berth::hostile::must(attachments.size() <= attachment_limit, "too many signatures");
            parse_attachments(with_signature(input, "{}", "x", "attachments").manifest, "attachments");
            return;
        }
        case 5: parse_referrers(input, "referrers"); return;
        case 6: keyring_packets(input, "key"); return;
        case 7: signer_of_status(input, "signature"); return;
        case 8: {
            auto all = parse_remembered(input, "store");
            berth::hostile::must(parse_remembered(format_remembered(all), "store").size() == all.size(), "one is lost");
            return;
        }
        case 9: {
            std::string text = berth::store::format_signatures(berth::store::parse_signatures(input));
            std::string again = berth::store::format_signatures(berth::store::parse_signatures(text));
            berth::hostile::must(again == text, "a record that is kept is another one");
            return;
        }
        case 10: {
            SifStatement statement = parse_sif_statement(input, "statement");
            berth::hostile::must(statement.objects.size() <= 4096, "too many objects");
            return;
        }
        case 11: parse_older_statement(cat("SIFHASH:\n", input), 2, "statement"); return;
        case 12: text_of_envelope({}, std::string(input)); return;
        default: PublicKey(input, "key").verifies("message", "signature");
    }
}

void run(std::string_view input) {
    unsigned choice = berth::hostile::take_byte(input) % 14;
    berth::hostile::refusing([&] { parse(choice, input); });
}

const berth::hostile::Registration registration("signature", run);

}  // namespace
