// Where a store lies, and which stores of others are read beside it: what Store::open() gets. Pure.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace berth::store {

struct Location {
    std::string path;                     ///< of the own store
    std::vector<std::string> shared = {};  ///< stores that the site offers, the first one first; without `path`
    std::optional<uid_t> shared_owner = {};  ///< whose they must be, or root's; none: no account of this node
    bool offered = false;                 ///< the own store is one that the site offers: all users read it

    /// For another process. A location without anything else is its path as it is.
    std::string text() const;
};

/// Reads Location::text().
Location parse_location(const std::string& text);

/// `path` as the own store of `uid`, at a site that offers `shared`.
Location make_location(const std::string& path, uid_t uid, const std::vector<std::string>& shared,
                       std::optional<uid_t> shared_owner);

}  // namespace berth::store
