// Whether an image may start by the site's signature policy without asking berth-pull, which alone reads policies.
#pragma once
#include <memory>
#include <string>

#include "runtime/config/site.hh"
#include "runtime/images/opened.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/request.hh"
#include "runtime/squash/format/part_sums.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/store/store.hh"

namespace berth {

/// True where no policy is, or the store remembers that the policy as it is now lets the image run under this name.
bool is_admitted(const store::Store& store, const Digest& digest, const plan::Reference& reference,
                 const plan::Site& site);

struct AdmittedFile {
    std::shared_ptr<const squash::PartSums> sums = {};  ///< of a file that the policy wants signed
    std::string signer = {}, rule = {};                 ///< for events
};

/// Asks berth-pull about the image file or directory `file`, whose real path this is. Of a file whose signatures count
/// it reads all, unless the store remembers it. Throws Error when the policy refuses it.
AdmittedFile admit_file(const plan::Site& site, const plan::Caller& caller, const std::string& path, int file,
                        const PullWatch& watch);

/// Who has signed an image that may run under the name, and the rule, for events.
store::SignatureRecord::Admitted admission_of(const store::Store& store, const Digest& digest,
                                              const plan::Reference& reference);

}  // namespace berth
