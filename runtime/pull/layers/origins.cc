#include "runtime/pull/layers/origins.hh"

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

namespace {

constexpr const char* origins_file = "origins";

}  // namespace

std::string text_of(const LayerOrigins& origins) {
    std::string out;
    for (const auto& [layer, origin] : origins) out += cat(layer, ' ', printable(origin, 1024), '\n');
    return out;
}

LayerOrigins parse_origins(std::string_view text) {
    LayerOrigins out;
    for (const std::string& line : split(text, '\n')) {
        size_t space = line.find(' ');
        if (space == std::string::npos) continue;
        if (auto layer = Digest::parse(line.substr(0, space)))
            out.insert_or_assign(*layer, printable(line.substr(space + 1), 1024));
    }
    return out;
}

LayerOrigins origins_of(const store::Store& store, const Digest& manifest) try {
    Fd file = store.own().find_document(manifest, origins_file);
    return file ? parse_origins(sys::read_all(file.get(), store::document_limit, cat("origins of ", manifest)))
                : LayerOrigins();
} catch (const Error&) {
    return {};
}

LayerOrigins origins_of(const store::Store& store, const store::Inventory& inventory) {
    LayerOrigins out;
    for (const store::StoredImage& image : inventory.images) out.merge(origins_of(store, image.digest));
    return out;
}

std::string origin_of(const plan::Reference& place) {
    return cat(place.registry, '/', place.name, ", ready-made");
}

std::string origin_clause(const LayerOrigins& origins, const Digest& layer) {
    auto origin = origins.find(layer);
    return origin == origins.end() ? "" : cat("; it came from ", origin->second);
}

void note_origins(const store::Store& store, const Digest& manifest, const LayerOrigins& origins) try {
    LayerOrigins before = origins_of(store, manifest), all = before;
    for (const auto& [layer, origin] : origins) all.insert_or_assign(layer, origin);
    std::erase_if(all, [](const auto& one) { return one.second.empty(); });
    if (all != before) store.put_document(manifest, origins_file, text_of(all));
} catch (const Error&) {
    // A disk that is full, say.
}

}  // namespace berth::pull
