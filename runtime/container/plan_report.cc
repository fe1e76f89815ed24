#include "runtime/container/plan_report.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/plan_text.hh"
#include "runtime/request/names.hh"

namespace berth {

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
