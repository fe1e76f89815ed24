#include <algorithm>
#include <map>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/job_environment.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/expand.hh"
#include "runtime/request/frozen.hh"

namespace berth::plan {

namespace {

/// NAME and VALUE of "NAME=VALUE"; a text without "=" has no value and is no variable.
std::optional<std::pair<std::string, std::string>> name_and_value(const std::string& text) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool asks_for_rights(const std::string& name) {
    return name == "BERTH_CONTAINER_NESTED" || name == "PYXIS_CONTAINER_NESTED" || name.starts_with("BERTH_SECURITY_");
}

std::vector<EnvironmentChange> environment_changes(const EnvironmentRules& rules,
                                                   const std::vector<std::string>& task) {
    std::map<std::string, std::string> outside;
    for (const std::string& text : task)
        if (auto var = name_and_value(text)) outside.insert(*var);

    Variables wanted;
    auto host_wins = [&](const std::string& name) {
        return (contains(rules.keep_host, name) || belongs_to_job(name)) && outside.count(name);
    };
    for (const std::string& name : rules.remove)
        if (!host_wins(name)) wanted[name] = std::nullopt;
    for (const std::string& text : rules.image)
        if (auto var = name_and_value(text); var && !host_wins(var->first) && !asks_for_rights(var->first))
            wanted[var->first] = var->second;
    for (const std::string& text : rules.site)
        if (auto var = name_and_value(text); var && !host_wins(var->first)) wanted[var->first] = var->second;
    for (const std::string& text : rules.set)
        if (auto var = name_and_value(text); var && !host_wins(var->first)) wanted[var->first] = var->second;

    // A slurmd without a configuration of its own names the copy in its spool folder (slurmd.c), which is not inside.
    if (auto conf = outside.find("SLURM_CONF"); !rules.slurm_conf.empty() && conf != outside.end() &&
                                                conf->second.ends_with("/conf-cache/slurm.conf"))
        wanted["SLURM_CONF"] = rules.slurm_conf;

    for (const std::string& text : rules.account) {
        auto variable = name_and_value(text);
        auto set = outside.find(variable->first);
        if ((set == outside.end() || set->second.empty()) && !wanted.contains(variable->first))
            wanted[variable->first] = variable->second;
    }

    // Who knows the step's secret could send layers of its own making to nodes that still pull.
    wanted[agreement_variable] = std::nullopt;

    add_job_variables(wanted, outside);

    std::vector<EnvironmentChange> changes;
    for (auto& [name, value] : wanted) {
        auto old = outside.find(name);
        bool same = value ? old != outside.end() && old->second == *value : old == outside.end();
        if (!same) changes.push_back({name, value});
    }
    return with_user_variables(std::move(changes), rules.user, rules.keep_host, task);
}

std::vector<EnvironmentChange> with_user_variables(std::vector<EnvironmentChange> changes,
                                                   const std::vector<std::string>& variables,
                                                   const std::vector<std::string>& kept,
                                                   const std::vector<std::string>& task) {
    if (variables.empty()) return changes;
    // They do not see each other.
    const std::vector<EnvironmentChange> before = changes;
    auto value_of = [&](const std::string& name) -> std::optional<std::string> {
        for (const EnvironmentChange& change : before)
            if (change.name == name) return change.value;
        const char* value = variable(task, name);
        return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
    };
    for (const std::string& text : variables) {
        auto [name, value] = name_and_value(text).value_or(std::pair(text, std::string()));
        if (contains(kept, name) && variable(task, name) != nullptr) continue;
        try {
            value = expanded(value, value_of);
        } catch (const Error& error) {
            throw Error(cat("--container-environment: env.", printable(name), ": ", error.what()));
        }
        std::erase_if(changes, [&, &name = name](const EnvironmentChange& change) { return change.name == name; });
        changes.push_back({name, value.empty() ? std::nullopt : std::optional(value)});
    }
    return changes;
}

void set_working_directory(std::vector<EnvironmentChange>& changes, const std::string& workdir,
                           const Request& request) {
    const std::string name = "PWD";
    bool of_user = std::any_of(request.variables.begin(), request.variables.end(), [&](const std::string& text) {
        return text == name || text.starts_with(name + "=");
    });
    if (of_user || contains(request.env, name)) return;
    std::erase_if(changes, [&](const EnvironmentChange& change) { return change.name == name; });
    changes.push_back({name, workdir.starts_with('/') ? workdir : cat("/", workdir)});
}

std::vector<std::string> with_device_variables(std::vector<std::string> environment, const Request& request) {
    auto set = [&](const std::string& name, const std::string& value) {
        std::erase_if(environment, [&](const std::string& text) { return text.starts_with(name + "="); });
        if (!value.empty()) environment.push_back(cat(name, "=", value));
    };
    for (const std::string& text : request.variables) {
        auto [name, value] = name_and_value(text).value_or(std::pair(text, std::string()));
        bool kept = contains(request.env, name) && variable(environment, name) != nullptr;
        if (!kept && value.find('$') == value.npos) set(name, value);
    }
    std::string devices = value_in(environment, "BERTH_DEVICES");
    for (const std::string& device : request.devices) devices += cat(devices.empty() ? "" : ",", device);
    if (!request.devices.empty()) set("BERTH_DEVICES", devices);
    return environment;
}

std::vector<std::string> site_variables(const Site& site, const std::vector<std::string>& image) {
    std::vector<std::string> out;
    auto has = [](const std::vector<std::string>& variables, const std::string& text) {
        std::string start = text.substr(0, text.find('=') + 1);
        return std::ranges::any_of(variables, [&](const std::string& one) { return one.starts_with(start); });
    };
    for (const std::string& text : site.site.environment_defaults)
        if (!has(image, text) && !has(site.site.environment, text)) out.push_back(text);
    out.insert(out.end(), site.site.environment.begin(), site.site.environment.end());
    return out;
}

std::string with_account_line(const std::string& content, const AccountLine& edit) {
    auto field = [&](const std::string& line) {
        std::vector<std::string> fields = split(line, ':');
        return static_cast<size_t>(edit.key_field) < fields.size() ? fields[static_cast<size_t>(edit.key_field)]
                                                                   : std::string();
    };
    // The name must be unique as well as the number: an image's account of the same name and another number would be
    // found first.
    std::string key = field(edit.line), name = split(edit.line, ':')[0];
    std::vector<std::string> lines = split(content, '\n');
    if (edit.keeps && std::ranges::any_of(lines, [&](const std::string& line) { return field(line) == key; }))
        return content;
    std::string out;
    for (const std::string& line : lines)
        if (!line.empty() && field(line) != key && split(line, ':')[0] != name) out += line + "\n";
    return out + edit.line + "\n";
}

}  // namespace berth::plan
