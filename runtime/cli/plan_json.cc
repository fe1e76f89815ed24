#include "runtime/cli/plan_json.hh"

#include "runtime/base/text.hh"
#include "runtime/cli/listing.hh"
#include "runtime/plan/plan_text.hh"

namespace berth::cli {

std::string plan_json(const plan::Plan& plan, const std::string& digest) {
    const plan::Identity& id = plan.identity;
    std::string edits, devices;
    for (const auto& [what, where, from, whose, why] : plan::plan_rows(plan))
        edits += cat(edits.empty() ? "" : ",", "\n  {\"what\":", json_text(what), ",\"where\":", json_text(where),
                     ",\"from\":", json_text(from), ",\"whose\":", json_text(whose), ",\"why\":", json_text(why), "}");
    for (const auto& [vendor, variables, of_vendor] : plan.devices)
        for (const plan::VisibleDevice& device : of_vendor)
            devices +=
                cat(devices.empty() ? "" : ",", "{\"vendor\":", json_text(vendor), ",\"uuid\":", json_text(device.uuid),
                    ",\"mig\":", device.slice ? "true" : "false", ",\"nodes\":", json_list(device.nodes), "}");
    return cat("{\"image\":", json_text(digest), ",\"uid\":{\"outside\":", id.host_uid, ",\"inside\":", id.inside_uid,
               "},\"gid\":{\"outside\":", id.host_gid, ",\"inside\":", id.inside_gid,
               "},\"writable\":", plan.writable ? "true" : "false", ",\"workdir\":", json_text(plan.workdir),
               ",\"command\":", json_list(plan.command), ",\"devices\":[", devices, "],\"edits\":[", edits, "\n]}\n");
}

}  // namespace berth::cli
