// How a pull finds the other nodes that want its image.
#pragma once
#include <memory>
#include <string>

#include "runtime/pull/image/documents.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/nodes/peer/lazy_exchange.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/trust/judge.hh"

namespace berth::pull {

/// This node's part in what the others, who meet at `options.share`, do about the image `digest`; `what` is that in
/// messages, `meter` lives longer than what is returned. Throws Error when the others cannot be met.
std::unique_ptr<nodes::Member> meet_others(const Options& options, const Digest& digest, const std::string& what,
                                           Meter& meter);

/// What one node of a step tells the others of an image: what it has asked `image`, and the source of `published`,
/// which may be null, for, and the signatures, so that not every node asks for them. What would make a message too long
/// is left out.
nodes::DocumentList documents_to_tell(const nodes::RememberingSource& image,
                                      const std::vector<trust::Signature>& signatures, const Published* published);
/// What a further pull of the image need not ask for (Options::known): its signatures, and of what went through
/// `source` that with one of these digests.
nodes::DocumentList documents_to_keep(const nodes::RememberingSource& source, const std::vector<Digest>& wanted,
                                      const std::vector<trust::Signature>& signatures);

/// This node's part in the exchange of the chunks of an image that has started already. Null where this node is alone,
/// with a note when that was to be otherwise.
std::unique_ptr<nodes::LazyExchange> meet_for_chunks(const Options& options,
                                                      const std::shared_ptr<const store::Partial>& partial,
                                                      const Digest& manifest, const std::vector<uint32_t>& profile,
                                                      const std::string& what, Meter& meter);

}  // namespace berth::pull
