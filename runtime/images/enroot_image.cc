#include "runtime/images/enroot_image.hh"

#include <optional>

#include "hooks/rootfs.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/edit_list.hh"
#include "runtime/enroot/site_files.hh"

namespace berth {

namespace {

constexpr size_t fstab_limit = 64 << 10, mounts_limit = 100, warnings_limit = 10;
/// What ${ENROOT_ROOTFS} stands for here. A line that has it without the variable means the same.
constexpr std::string_view root_mark = "/.enroot-rootfs";

/// The path below the container's root; nothing for a path of the host.
std::optional<std::string> path_inside(const std::string& source) {
    if (!source.starts_with(root_mark)) return std::nullopt;
    std::string rest = source.substr(root_mark.size());
    if (!rest.empty() && rest[0] != '/') return std::nullopt;
    return plan::normalised(rest.empty() ? "/" : rest);
}

/// Adds the mount of a line; else says why it is none.
std::string add_line(plan::EditList& edits, const enroot::FstabLine& line) {
    using Kind = plan::MountRequest::Kind;
    if (!line.left_out.empty()) return line.left_out;
    const plan::MountRequest& wanted = line.mount;
    plan::Origin origin = cat("/etc/fstab of the image, line ", line.number);
    if (wanted.kind == Kind::tmpfs) {
        edits.tmpfs(wanted.target, 01777, origin, "asked for by the image").options = wanted.options;
    } else {
        auto source = wanted.kind == Kind::bind ? path_inside(wanted.source) : std::nullopt;
        if (!source) return "an image mounts nothing of the host, and unmounts nothing";
        plan::Mount& mount = edits.bind(*source, wanted.target, origin, "asked for by the image");
        mount.inside = true;
        mount.recursive = wanted.recursive;
        mount.optional = wanted.optional;
        mount.create = wanted.create;
    }
    return {};
}

void set_flags(plan::Edit& edit, const plan::MountRequest& wanted) {
    auto& mount = std::get<plan::Mount>(edit.action);
    mount.read_only = wanted.read_only;
    mount.no_exec = wanted.no_exec;
}

class Reader {
  public:
    explicit Reader(const std::function<void(const std::string&)>& warn) : warn_(warn) {}

    plan::ContainerEdits edits_of(const std::string& text, const enroot::VariableValue& value) {
        plan::ContainerEdits out;
        out.vendor = "fstab";
        plan::EditList edits(out.edits);
        for (const enroot::FstabLine& line : enroot::mount_lines(text, value)) {
            std::string why = out.edits.size() < mounts_limit ? add_line(edits, line)
                                                              : cat("more than ", mounts_limit, " mounts");
            if (why.empty())
                set_flags(out.edits.back(), line.mount);
            else
                leave_out(line.number, why);
        }
        return out;
    }

    void note(const std::string& line) const {
        if (warn_) warn_("warning: /etc/fstab of the image" + line);
    }

  private:
    void leave_out(unsigned number, const std::string& why) {
        if (++left_out_ > warnings_limit) return;
        note(cat(", line ", number, ", is left out: ", why));
        if (left_out_ == warnings_limit) note(": further lines that are left out are not named");
    }

    const std::function<void(const std::string&)>& warn_;
    size_t left_out_ = 0;
};

enroot::VariableValue value_in_start(const std::vector<std::string>& environment) {
    return [&environment](const std::string& name) {
        return name == "ENROOT_ROOTFS" ? std::string(root_mark) : value_in(environment, name);
    };
}

}  // namespace

plan::ImageConfig config_at_start(const ContainerImage& image, const std::vector<std::string>& environment) {
    plan::ImageConfig out = image.index.config();
    if (!out.of_enroot) return out;
    auto value = [&](const std::string& name) { return value_in(environment, name); };
    std::vector<std::string> expanded;
    for (const std::string& text : out.env) {
        std::string replaced = enroot::with_variables(text, value);
        if (replaced == text || !replaced.ends_with('=')) expanded.push_back(std::move(replaced));
    }
    out.env = std::move(expanded);
    return out;
}

void add_image_fstab(std::vector<plan::ContainerEdits>& edits, const ContainerImage& image,
                     const std::vector<std::string>& environment,
                     const std::function<void(const std::string& line)>& warn) {
    if (!image.index.config().of_enroot) return;
    std::string text = hooks::rootfs_of(image)->read("/etc/fstab", 0, fstab_limit + 1);
    Reader reader(warn);
    if (text.size() > fstab_limit)
        return reader.note(cat(" is left out: it has more than ", fstab_limit, " bytes"));
    plan::ContainerEdits made = reader.edits_of(text, value_in_start(environment));
    if (!made.edits.empty()) edits.push_back(std::move(made));
}

}  // namespace berth
