// What every container has of the node: the kernel's file systems, devices, terminals, /run and /tmp, and what is
// hidden of them.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/plan/edit_list.hh"
#include "runtime/plan/host_facts.hh"
#include "runtime/plan/image_config.hh"
#include "runtime/request/request.hh"

namespace berth::plan {

/// What these depend on; lives as long as its parts.
struct SystemNeeds {
    const OwnNamespaces& own;
    const OwnNamespaces& asked;  ///< of them those of the request; the others are the site's wish
    const std::string& terminal;  ///< the caller's, on the node, without node_terminals; empty: none
    bool node_terminals;          ///< of srun --pty
    bool nested;                  ///< Plan::nested
    const Site& site;
    const HostFacts& host;
    const ImageConfig& image;
};

/// Throws Error for volumes of the image that cannot be.
void add_system(EditList& edits, const SystemNeeds& needs);

}  // namespace berth::plan
