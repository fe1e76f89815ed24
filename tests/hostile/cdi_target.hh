// For the targets of CDI specifications, which differ in the syntax.
#pragma once
#include "hooks/cdi_files/cdi.hh"
#include "tests/hostile/target.hh"

namespace berth::hostile {

/// The changes as the lines that berth-pull gives them in, and as a specification of our own.
inline void write_again(const hooks::CdiEdits& edits) {
    refusing([&] {
        must(hooks::parse_cdi_edits(hooks::lines_of(edits, "CDI"), "lines") == edits, "changes as lines are others");
    });
    refusing([&] {
        hooks::CdiSpec again = hooks::parse_cdi(hooks::cdi_text("vendor.com/gpu", edits), false, "again");
        if (again.refused.contains("all") || !again.all_refused.empty()) return;
        must(again.devices.at("all").nodes == edits.nodes, "changes as a specification are others");
    });
}

inline void read_cdi(std::string_view input, bool yaml) {
    refusing([&] {
        hooks::CdiSpec spec = hooks::parse_cdi(input, yaml, "spec");
        write_again(spec.common);
        for (const auto& [name, edits] : spec.devices) write_again(edits);
    });
}

}  // namespace berth::hostile
