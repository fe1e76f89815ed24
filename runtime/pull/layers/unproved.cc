#include "runtime/pull/layers/unproved.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/squash/write/layer_check.hh"
#include "runtime/store/collect.hh"

namespace berth::pull {

namespace {

/// The line that says what is wrong; empty when the layer is proved, or has gone. Throws Error when it cannot be known.
std::string disproof(const store::Store& store, const Unproved& unproved, const Digest& diff_id) {
    std::string what = cat(unproved.what, ", layer ", diff_id);
    Fd file = store.open_layer(diff_id);
    const oci::PublishedLayer* layer = unproved.artifact.find(diff_id);
    if (!file || layer == nullptr) return {};
    try {
        prove_published(*unproved.source, *layer, file.get(), what, [] {});
        return {};
    } catch (const squash::LayerDiffers& problem) {
        store::discard_layer(store, store.layer_file(diff_id), file.get());
        return cat(what, " has run on its publisher's signature and is not what the image has: ", problem.what(),
                   "; removed from the store, the next start converts it");
    }
}

}  // namespace

std::vector<std::string> prove(const store::Store& store, const Unproved& unproved) {
    std::vector<std::string> problems;
    for (const Digest& diff_id : unproved.layers) try {
            std::string problem = disproof(store, unproved, diff_id);
            problem.empty() ? store.clear_unproved(diff_id) : problems.push_back(problem);
        } catch (const SysError&) {
            throw;
        } catch (const Error&) {
            // Not known now: berth verify --deep finds out.
        }
    return problems;
}

}  // namespace berth::pull
