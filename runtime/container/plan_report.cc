#include "runtime/container/plan_report.hh"

#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/plan_text.hh"
#include "runtime/request/names.hh"

namespace berth {

void log_plan(const plan::Plan& plan) {
    if (!debug::is_on()) return;
    debug::log("plan", "uid ", plan.identity.host_uid, " is ", plan.identity.inside_uid, " inside, ",
               plan.writable ? "writable" : "read-only", ", directory ", plan.workdir, ", edits ", plan.edits.size());
    for (const auto& [what, where, from, whose, why] : plan::plan_rows(plan)) {
        bool has_content = what == "env" || what == "line" || what == "file";
        std::string source = has_content || from.empty() ? "" : cat(from.starts_with("->") ? " " : " from ", from);
        debug::log("plan", what, ' ', where, source, ": ", whose, why.empty() ? "" : ", ", why);
    }
}

bool wants_plan(const std::vector<std::string>& environment) {
    const char* value = variable(environment, "BERTH_PLAN");
    return value != nullptr && *value != '\0' && plan::parse_bool(value, "BERTH_PLAN");
}

void report_plan(const plan::Plan& plan, const std::string& digest,
                 const std::function<void(const std::string&)>& tell) {
    std::string text = (digest.empty() ? "" : "image      " + digest + "\n") + plan::plan_text(plan);
    for (const std::string& line : split(text, '\n'))
        if (!line.empty()) tell(line);
}

}  // namespace berth
