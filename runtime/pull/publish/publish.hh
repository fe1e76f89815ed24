// Publishes the layers of an image in the form in which Berth runs them, beside the image or in a repository of the
// site's.
#pragma once
#include <optional>

#include "runtime/pull/image/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct PublishedImage {
    Digest manifest;        ///< of the image
    size_t layers = 0;      ///< in the artifact
    size_t left_out = 0;    ///< which cannot be published, each with a note
    bool was_there = false;  ///< all of it; nothing was brought
};

/// Pulls the image if it is not in the store, makes the remainder of each layer from what the registry sends, proves
/// that both halves are the layer, and brings them to `repository`: at the end the artifact, under its tag. What is
/// published already stays as it is, unless `anew`. Throws Error.
PublishedImage publish_image(const store::Store& store, const plan::Reference& image, const Options& options,
                             const plan::Reference& repository, bool anew, Meter& meter);

}  // namespace berth::pull
