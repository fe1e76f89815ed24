#include "runtime/pull/layers/meeting.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/trust/remembered.hh"

namespace berth::pull {

namespace {

nodes::NodeSettings settings_of(const Options& options, const Digest& image, const std::string& what, Meter& meter) {
    const ShareLimits& limits = options.share_limits;
    return {.place = *options.share,
            .image = image,
            .address = limits.address,
            .first_port = limits.first_port,
            .last_port = limits.last_port,
            .rate = limits.rate,
            .stop = options.registry.stop,
            .notice = [&meter, what](const std::string& line) { meter.note(cat(what, ": ", line)); },
            .status = [&meter](const std::optional<nodes::StepStatus>& step) { meter.set_step(step); }};
}

}  // namespace

std::unique_ptr<nodes::Member> meet_others(const Options& options, const Digest& digest, const std::string& what,
                                           Meter& meter) {
    return std::make_unique<nodes::Member>(settings_of(options, digest, what, meter));
}

nodes::DocumentList documents_to_tell(const nodes::RememberingSource& image, const std::vector<trust::Signature>& found,
                                      const Published* published) {
    constexpr size_t signatures_limit = 256 << 10;
    // In base64 it is a third more, which is below nodes::line_limit.
    size_t room = 11 << 20;
    nodes::DocumentList out;
    auto add = [&](const nodes::ImageDocument& document) {
        if (document.bytes.size() > room) return;
        room -= document.bytes.size();
        out.push_back(document);
    };
    auto add_signatures = [&](const std::vector<trust::Signature>& signatures, const char* type) {
        std::string bytes = trust::format_remembered(signatures);
        if (!signatures.empty() && bytes.size() <= signatures_limit) add({oci::sha256_of(bytes), type, bytes});
    };
    for (const nodes::ImageDocument& document : image.documents()) add(document);
    add_signatures(found, nodes::signatures_type);
    if (published == nullptr) return out;
    add({oci::sha256_of(published->document), nodes::published_type, published->document});
    add_signatures(published->signatures, nodes::published_signatures_type);
    for (const nodes::ImageDocument& document : published->source->documents()) add(document);
    return out;
}

nodes::DocumentList documents_to_keep(const nodes::RememberingSource& source, const std::vector<Digest>& wanted,
                                      const std::vector<trust::Signature>& signatures) {
    nodes::DocumentList out = documents_to_tell(source, signatures, nullptr);
    std::erase_if(out, [&](const nodes::ImageDocument& document) {
        return document.content_type != nodes::signatures_type &&
               std::ranges::find(wanted, document.digest) == wanted.end();
    });
    return out;
}

std::unique_ptr<nodes::LazyExchange> meet_for_chunks(const Options& options,
                                                      const std::shared_ptr<const store::Partial>& partial,
                                                      const Digest& manifest, const std::vector<uint32_t>& profile,
                                                      const std::string& what, Meter& meter) try {
    if (!options.share) return nullptr;
    return std::make_unique<nodes::LazyExchange>(settings_of(options, manifest, what, meter), partial, profile);
} catch (const Error& problem) {
    meter.note(cat(what, " is not shared with the other nodes of the step: ", problem.what()));
    return nullptr;
}

}  // namespace berth::pull
