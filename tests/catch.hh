// Catch2 of version 2 or 3, by the names of version 2.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

namespace Catch {

using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;

inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }

}  // namespace Catch

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
