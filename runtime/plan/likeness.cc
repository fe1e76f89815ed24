#include "runtime/plan/likeness.hh"

#include <algorithm>
#include <concepts>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

/// Puts values behind each other so that no two lists of values give the same text.
class Writer {
  public:
    void add(std::string_view text) { out_ += cat(text.size(), ":", text, ","); }
    void add(const std::string& text) { add(std::string_view(text)); }
    template <typename Number>
        requires std::integral<Number> || std::is_enum_v<Number>
    void add(Number number) {
        out_ += cat(static_cast<int64_t>(number), ",");
    }
    template <typename Item>
    void add(const std::vector<Item>& items) {
        add(items.size());
        for (const Item& item : items) add(item);
    }
    void add(const std::pair<std::string, std::string>& pair) { all(pair.first, pair.second); }
    template <typename... Values>
    void all(const Values&... values) {
        (add(values), ...);
    }

    // Each names all members of what it writes: one that is added to the structure and not here does not compile.
    void add(const Mount& mount) {
        const auto& [kind, source, target, read_only, no_exec, recursive, device, keeps_devices, optional, inside,
                     layer, size, mode, propagation, options, create] = mount;
        all(kind, source, target, read_only, no_exec, recursive, device, keeps_devices, optional, inside, layer, size,
            mode, propagation, options, create);
    }
    void add(const Unmount& unmount) {
        const auto& [target] = unmount;
        add(target);
    }
    void add(const Symlink& link) {
        const auto& [path, target, replace] = link;
        all(path, target, replace);
    }
    void add(const Directory& directory) {
        const auto& [path, mode, skeleton] = directory;
        all(path, mode, skeleton);
    }
    void add(const AccountLine& account) {
        const auto& [path, line, key_field, keeps] = account;
        all(path, line, key_field, keeps);
    }
    void add(const DropIn& file) {
        const auto& [path, content] = file;
        all(path, content);
    }
    void add(const CachedLibrary& library) {
        const auto& [flags, name, path, osversion, hwcap] = library;
        all(flags, name, path, osversion, hwcap);
    }
    void add(const LoaderLibraries& loader) {
        const auto& [libraries, musl_path, folder] = loader;
        all(libraries, musl_path, folder);
    }
    void add(const Edit& edit) {
        add(edit.action.index());
        std::visit([this](const auto& action) { add(action); }, edit.action);
        add(edit.origin.chooser());
    }
    void add(const Identity& identity) {
        const auto& [host_uid, inside_uid, host_gid, inside_gid] = identity;
        all(host_uid, inside_uid, host_gid, inside_gid);
    }
    void add(const OwnNamespaces& own) {
        for (const NamespaceKind& kind : namespace_kinds) add(own.*kind.wanted);
    }
    void add(const SystemCalls& calls) {
        const auto& [confined, allow, deny, fake_chown] = calls;
        all(confined, allow, deny, fake_chown);
    }

    std::string text() && { return std::move(out_); }

  private:
    std::string out_;
};

/// What is mounted from the node has its own folders; one of the container's own is made for the first process that
/// wants to begin there.
std::string made_workdir(const Plan& plan) {
    if (plan.workdir_required) return {};
    bool mounted = std::ranges::any_of(plan.edits, [&](const Edit& edit) {
        const auto* mount = std::get_if<Mount>(&edit.action);
        return mount != nullptr && mount->kind == Mount::Kind::bind && !mount->layer &&
               is_below(plan.workdir, mount->target);
    });
    return mounted ? "" : plan.workdir;
}

}  // namespace

std::string likeness(const Plan& plan) {
    Writer out;
    out.all(plan.identity, plan.writable, plan.remap_root, plan.nested, plan.mount_home, plan.mounts, plan.unshare,
            plan.hostname, plan.tmpfs_size, plan.edits, made_workdir(plan), plan.system_calls, plan.capabilities,
            plan.granted);
    return std::move(out).text();
}

}  // namespace berth::plan
