#include "runtime/plan/plan_text.hh"

#include <algorithm>
#include <array>

#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

using Row = std::array<std::string, 5>;

std::string shown(const std::string& text) { return printable(text, 4096); }

std::string octal(uint32_t mode) {
    char out[16];
    std::snprintf(out, sizeof out, "%04o", mode);
    return out;
}

/// The usual one is not told.
const char* propagation_text(Propagation propagation) {
    switch (propagation) {
        case Propagation::slave:
            return ",slave";
        case Propagation::shared:
            return ",shared";
        case Propagation::unbindable:
            return ",unbindable";
        case Propagation::isolated:
            break;
    }
    return "";
}

Row row(const Mount& mount) {
    std::string flags = mount.read_only ? "ro" : "rw";
    if (mount.no_exec) flags += ",noexec";
    bool in_dev = mount.source == "/dev" || mount.source.starts_with("/dev/");
    if (mount.device || (mount.keeps_devices && in_dev)) flags += ",dev";
    flags += propagation_text(mount.propagation);
    for (const auto& [key, value] : mount.options) flags += cat(",", key, "=", value);
    if (mount.kind == Mount::Kind::tmpfs)
        return {"tmpfs", shown(mount.target), cat("mode=", octal(mount.mode), ",", flags), "", ""};
    if (mount.layer) return {"layer", shown(mount.target), shown(mount.source), "", ""};
    if (mount.kind == Mount::Kind::squashfs)
        return {"squashfs", shown(mount.target), cat(shown(mount.source), " ", flags), "", ""};
    if (mount.kind != Mount::Kind::bind) return {"new", shown(mount.target), cat(mount.source, " ", flags), "", ""};
    return {"bind", shown(mount.target), cat(shown(mount.source), " ", flags), "", ""};
}
Row row(const Unmount& unmount) { return {"umount", shown(unmount.target), "", "", ""}; }
Row row(const Symlink& link) { return {"symlink", shown(link.path), cat("-> ", shown(link.target)), "", ""}; }
Row row(const Directory& directory) {
    return {"directory", shown(directory.path), cat("mode=", octal(directory.mode)), "", ""};
}
Row row(const AccountLine& account) { return {"line", shown(account.path), shown(account.line), "", ""}; }
Row row(const DropIn& file) {
    bool zone = file.content.starts_with("TZif");
    return {"file", shown(file.path), zone ? "(a time zone)" : shown(std::string(trimmed(file.content))), "", ""};
}
Row row(const LoaderLibraries& added) {
    bool musl = !added.musl_path.empty();
    std::string names;
    for (const CachedLibrary& library : added.libraries) names += (names.empty() ? "" : " ") + library.name;
    return {"libraries", musl ? shown(added.musl_path) : "/etc/ld.so.cache", musl ? shown(added.folder) : shown(names),
            "", ""};
}

/// What somebody sets is not removed, whatever its value outside is.
bool sets(const EnvironmentRules& rules, const std::string& name) {
    for (const auto* variables : {&rules.image, &rules.site, &rules.set, &rules.keep_host, &rules.user})
        for (const std::string& text : *variables)
            if (text == name || text.starts_with(name + "=")) return true;
    return false;
}

}  // namespace

std::vector<Row> plan_rows(const Plan& plan) {
    std::vector<Row> rows;
    for (const Edit& edit : plan.edits) {
        Row next = std::visit([](const auto& action) { return row(action); }, edit.action);
        next[3] = edit.origin.text();
        next[4] = edit.reason;
        rows.push_back(next);
    }
    auto environment = [&](const std::vector<std::string>& variables, const char* origin, const char* why) {
        for (const std::string& text : variables) {
            size_t equals = text.find('=');
            rows.push_back({"env", shown(text.substr(0, equals)),
                            equals == std::string::npos ? "" : shown(text.substr(equals + 1)), origin, why});
        }
    };
    environment(plan.environment.image, "image", "the image's environment");
    environment(plan.environment.site, "site", "the site's, in place of the image's");
    environment(plan.environment.keep_host, "option --container-env", "the caller's value, if set");
    std::vector<std::string> removed;
    for (const std::string& name : plan.environment.remove)
        if (!sets(plan.environment, name)) removed.push_back(name);
    environment(removed, "system", "removed: the host's locale");
    environment(plan.environment.set, "system", "needed inside");
    environment(plan.environment.account, "account", "where nothing else sets it");
    environment(plan.environment.user, "option --container-environment", "the environment file's; empty: removed");
    return rows;
}

namespace {

std::string table(std::vector<Row> rows) {
    rows.insert(rows.begin(), {"WHAT", "WHERE", "FROM", "WHOSE", "WHY"});
    std::array<size_t, 5> width{};
    for (const Row& cells : rows)
        for (size_t i = 0; i < cells.size(); ++i) width[i] = std::max(width[i], std::min<size_t>(cells[i].size(), 48));
    std::string out;
    for (const Row& cells : rows) {
        std::string line;
        for (size_t i = 0; i < cells.size(); ++i) {
            line += cells[i];
            if (i + 1 < cells.size())
                line += std::string(cells[i].size() < width[i] ? width[i] - cells[i].size() + 2 : 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string words(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : " ") + shown(name);
    return out;
}

std::string system_calls_text(const SystemCalls& calls) {
    std::string out = calls.confined ? "the dangerous ones are refused" : "none of the dangerous ones is refused";
    if (calls.confined && !calls.allow.empty()) out += ", but for " + words(calls.allow);
    if (!calls.deny.empty()) out += "; refused besides: " + words(calls.deny);
    if (calls.fake_chown) out += "; a change of owner to another id only seems to work";
    return out;
}

/// A line, or nothing for the usual ones.
std::string namespaces_text(const OwnNamespaces& unshare) {
    if (unshare == OwnNamespaces()) return {};
    std::string words;
    for (const NamespaceKind& kind : namespace_kinds)
        if (unshare.*kind.wanted) words += cat(" ", kind.word);
    return cat("namespaces user mount", words, " of its own, the others are the node's\n");
}

}  // namespace

std::string plan_text(const Plan& plan) {
    const Identity& id = plan.identity;
    std::string command = words(plan.command);
    return cat("identity   uid ", id.host_uid, " is ", id.inside_uid, " inside, gid ", id.host_gid, " is ",
               id.inside_gid, plan.remap_root ? " (remap-root)" : "", "\n", namespaces_text(plan.unshare),
               "root       ", plan.writable ? "writable in memory, gone with the container" : "read-only", "\n",
               plan.nested ? "nested     programs may make user namespaces, and mount in them\n" : "", "syscalls   ",
               system_calls_text(plan.system_calls), "\n", "directory  ", shown(plan.workdir),
               plan.workdir_required ? " (must exist)" : "", "\n", "command    ", command.empty() ? "(none)" : command,
               "\n\n", table(plan_rows(plan)));
}

}  // namespace berth::plan
