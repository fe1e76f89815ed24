// Whether an image may start by the site's signature policy without asking berth-pull, which alone reads policies.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/store/store.hh"

namespace berth {

/// True where no policy is, or the store remembers that the policy as it is now lets the image run under this name.
bool is_admitted(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                 const plan::Site& site);

/// Asks berth-pull about an image file or directory at its real path. Throws Error when the policy refuses it.
void admit_file(const plan::Site& site, const std::string& path);

/// Who has signed an image that may run under the name, and the rule, for events.
store::SignatureRecord::Admitted admission_of(const store::Store& store, const Digest& digest,
                                              const plan::Reference& reference);

}  // namespace berth
