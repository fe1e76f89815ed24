// Changes of a container in the vocabulary of CDI (container device interface): what CDI specifications and a site's
// programs ask for.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

struct CdiEdits {
    struct Mount {
        std::string source, target;  ///< no source: a tmpfs
        bool read_only = false, no_exec = false;
        std::vector<std::pair<std::string, std::string>> options = {};  ///< of a tmpfs: size, mode, ...
        bool operator==(const Mount&) const = default;
    };
    std::vector<std::string> environment;                    ///< NAME=VALUE
    std::vector<std::pair<std::string, std::string>> nodes;  ///< path on the node, path in the container
    std::vector<Mount> mounts;
    std::vector<std::pair<std::string, std::string>> links;  ///< path, target
    std::vector<std::string> library_folders;                ///< whose mounted libraries the loader is to find
    std::vector<std::pair<std::string, unsigned>> modes;     ///< directory, its mode
    std::set<std::string> hooks;  ///< of specifications, that a maker does (makers.hh): "enable-cuda-compat"
    std::set<unsigned> groups;    ///< additionalGids: no container can be given one, its user may have it
    std::vector<std::string> warnings;
    bool operator==(const CdiEdits&) const = default;
    void append(const CdiEdits& more);
};

/// A line a change, fields with tabs between them: from the program that reads JSON to the one that does not link it.
/// Throws Error for a text with control characters in it, naming `what`.
std::string lines_of(const CdiEdits& edits, const std::string& what);
/// Throws Error naming `what`.
CdiEdits parse_cdi_edits(std::string_view lines, const std::string& what);

/// The plan's edits; mounts and nodes nearer to the root come first. `before` are those that the container has already:
/// a maker's own go before what a specification says of the same devices. Throws Error for a path that no mount may
/// have, naming `origin`.
plan::ContainerEdits container_edits_of(const CdiEdits& edits, const Host& host, const Rootfs& image,
                                        const plan::Origin& origin,
                                        const std::vector<plan::ContainerEdits>& before = {});

/// The other way round, without what CDI has no words for.
CdiEdits cdi_edits_of(const plan::ContainerEdits& made);

}  // namespace berth::hooks
