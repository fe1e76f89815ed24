#include "runtime/enroot/mounts.hh"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mount_flags.hh"

namespace berth::enroot {

namespace {

struct Fields {
    std::string source, target, type, options;
};

/// Options of mount(8) between commas, and not the type of a file system.
bool are_options(const std::string& text) {
    if (text.find(',') != text.npos) return true;
    plan::MountRequest bind;
    return text == "suid" || text == "dev" || text == "remount" || text == "x-detach" || text == "x-move" ||
           plan::apply_mount_flag(bind, text).empty();
}

/// What Enroot makes of a line that lacks fields (mount_fstab in bin/enroot-mount.c of 4.1.2).
Fields completed(const std::vector<std::string>& given) {
    auto field = [&](size_t at) { return at < given.size() ? given[at] : std::string(); };
    Fields out{field(0), field(1), field(2), field(3)};
    if (!out.target.empty() && out.type.empty() && out.options.empty() && are_options(out.target))
        out.options = std::exchange(out.target, "");
    if (!out.type.empty() && out.options.empty() && are_options(out.type)) out.options = std::exchange(out.type, "");
    if (out.target.empty() || out.target == "none") out.target = out.source;
    if (out.source == "tmpfs") out.type = "tmpfs";
    return out;
}

/// For the grammar of --container-mounts.
std::string escaped(const std::string& path) {
    std::string out;
    for (char letter : path) {
        if (letter == ':' || letter == ',' || letter == '\\') out += '\\';
        out += letter;
    }
    return out;
}

std::string flags_of(const Fields& fields) {
    std::string out;
    for (const std::string& one : split(fields.options, ','))
        if (!one.empty()) out += cat(out.empty() ? ":" : "+", one);
    return out;
}

std::string mount_of(const std::vector<std::string>& given, std::string_view text) {
    Fields fields = completed(given);
    auto refuse = [&](const std::string& why) { throw Error(cat("mount ", printable(text, 4096), ": ", why)); };
    if (fields.source.empty()) refuse("write SRC:DST[:OPTION,OPTION...]");
    bool takes_away = ("," + fields.options + ",").find(",x-detach,") != std::string::npos;
    bool tmpfs = fields.type == "tmpfs", squashfs = fields.type == "squashfs";
    if (!fields.type.empty() && fields.type != "none" && !tmpfs && !squashfs)
        refuse(cat("file systems of type ", printable(fields.type),
                   " are not mounted; there are binds, tmpfs, and squashfs of a file"));
    if (squashfs) fields.options = fields.options.empty() ? "squashfs" : cat("squashfs,", fields.options);
    std::string source = fields.source, target = fields.target;
    if (takes_away || tmpfs)
        source = takes_away ? "umount" : "tmpfs";
    else if (source[0] != '/' && source[0] != '.')
        source = "./" + source;
    // From the container's root, as all of them.
    if (target[0] != '/') target = "/" + target;
    return cat(escaped(source), ":", escaped(target), flags_of(fields));
}

}  // namespace

std::string mount_of_words(std::string_view text) {
    // "x-create=dir" and the like have no colon; a path with one cannot be written, as with Enroot.
    return mount_of(split(text, ':'), text);
}

std::string mount_of_line(std::string_view line) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#') return {};
    std::string plain(line);
    std::replace(plain.begin(), plain.end(), '\t', ' ');
    std::vector<std::string> fields;
    for (const std::string& field : split(plain, ' '))
        if (!field.empty()) fields.push_back(field);
    // What dump(8) and fsck(8) look at.
    if (fields.size() > 4) fields.resize(4);
    return mount_of(fields, line);
}

}  // namespace berth::enroot
