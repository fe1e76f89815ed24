#include "runtime/pull/image/chain.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

Chain find_chain(oci::Source& source, const std::optional<Digest>& digest, const oci::Machine& machine,
                 const std::string& what) {
    std::vector<Digest> indexes;
    oci::Document sent = source.manifest(digest);
    oci::Descriptor wanted{"", digest.value_or(sent.digest)};
    for (;;) {
        auto document = oci::parse_manifest(sent.bytes, sent.content_type, what);
        // What the index calls it has to agree as well as what the registry does.
        if (!wanted.media_type.empty()) oci::parse_manifest(sent.bytes, wanted.media_type, what);
        if (auto* manifest = std::get_if<oci::Manifest>(&document))
            return {std::move(indexes), std::move(sent), std::move(*manifest)};
        if (indexes.size() == oci::nesting_limit)
            throw Error(cat(what, ": more than ", oci::nesting_limit, " image indexes inside one another; refused"));
        indexes.push_back(wanted.digest);
        wanted = oci::choose_platform(std::get<oci::ImageIndex>(document), machine, what);
        sent = source.manifest(wanted.digest);
        if (sent.bytes.size() != wanted.size)
            throw Error(cat(what, ": the manifest ", wanted.digest, " has ", sent.bytes.size(), " bytes instead of ",
                            wanted.size, "; refused"));
    }
}

}  // namespace berth::pull
