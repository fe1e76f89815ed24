#include "runtime/request/mounts.hh"

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mount_flags.hh"
#include "runtime/request/values.hh"

namespace berth::plan {

namespace {

/// A piece of the option between separators, unescaped, with its place in the input for the caret.
struct Field {
    std::string text;
    size_t position = 0;
};

using MountFields = std::vector<Field>;

[[noreturn]] void fail(std::string_view text, size_t position, const std::string& why) {
    throw Error(with_caret(why, text, position));
}

/// Splits the value into mounts (at commas) of fields (at colons).
std::vector<MountFields> fields_of(std::string_view text) {
    std::vector<MountFields> mounts(1, MountFields(1));
    for (size_t at = 0; at < text.size(); ++at) {
        char c = text[at];
        if (c == '\\' && at + 1 < text.size() && (text[at + 1] == ':' || text[at + 1] == ',' || text[at + 1] == '\\')) {
            mounts.back().back().text += text[++at];
        } else if (c == ',') {
            mounts.push_back({Field{{}, at + 1}});
        } else if (c == ':') {
            mounts.back().push_back(Field{{}, at + 1});
        } else {
            mounts.back().back().text += c;
        }
    }
    return mounts;
}

void apply_flags(MountRequest& mount, const Field& field, std::string_view text) {
    // As in Pyxis, a colon with nothing behind it is as good as none.
    if (field.text.empty()) return;
    size_t position = field.position;
    std::vector<std::string> flags = split(field.text, '+');
    if (std::string why = take_kind(mount, flags); !why.empty()) fail(text, position, why);
    for (const std::string& flag : flags) {
        if (std::string why = apply_mount_flag(mount, flag); !why.empty()) fail(text, position, why);
        position += flag.size() + 1;
    }
}

void check_path(const Field& field, std::string_view text, const char* which) {
    if (field.text.find('\0') != std::string::npos) fail(text, field.position, cat("the ", which, " holds a NUL byte"));
    if (field.text.size() > 4095) fail(text, field.position, cat("the ", which, " is longer than 4095 bytes"));
}

void set_source(MountRequest& mount, const Field& field, std::string_view text) {
    check_path(field, text, "source");
    if (field.text == "tmpfs")
        mount.kind = MountRequest::Kind::tmpfs;
    else if (field.text == "umount")
        mount.kind = MountRequest::Kind::umount;
    else if (field.text.empty())
        fail(text, field.position, "a mount is SRC[:DST[:FLAG+FLAG]], and SRC is missing here");
    else if (field.text[0] == ' ')
        fail(text, field.position, "take the blank out: a mount follows the comma at once");
    else if (field.text[0] == '~' && !is_below_home(field.text))
        fail(text, field.position, other_home_mistake(field.text));
    else if (field.text[0] != '/' && field.text[0] != '.' && field.text[0] != '~')
        fail(text, field.position,
             cat("the source must start with / or . (write ./", printable(field.text), "), or be tmpfs or umount"));
    else
        mount.source = field.text;
}

/// Only of a relative target: in an absolute one `..` stops at the root, as in every path.
bool leaves_root(std::string_view target) {
    int depth = 0;
    if (target[0] == '/') return false;
    for (const std::string& part : split(target, '/')) {
        if (!part.empty() && part != ".") depth += part == ".." ? -1 : 1;
        if (depth < 0) return true;
    }
    return false;
}

void set_target(MountRequest& mount, const MountFields& fields, std::string_view text) {
    bool given = fields.size() > 1 && !fields[1].text.empty();
    if (!given) {
        if (fields.size() == 2) fail(text, fields[1].position, "the target is missing after the colon");
        if (mount.kind != MountRequest::Kind::bind)
            fail(text, fields[0].position,
                 cat(fields[0].text, " needs a target: ", fields[0].text, ":/path/in/the/container"));
        return;
    }
    check_path(fields[1], text, "target");
    if (fields[1].text[0] == ' ') fail(text, fields[1].position, "take the blank out: the target follows at once");
    if (fields[1].text[0] != '/' && fields[1].text[0] != '.')
        fail(text, fields[1].position, "the target must be an absolute path in the container (start with /)");
    if (leaves_root(fields[1].text))
        fail(text, fields[1].position, cat("the target leads out of the container: ", reason(EXDEV)));
    mount.target = normalised(fields[1].text);
    if (std::string why = forbidden_target(mount.target); !why.empty()) fail(text, fields[1].position, why);
}

/// `/a:/x:rw,ro` as in /etc/fstab: the comma begins another mount.
void refuse_flag(const MountFields& fields, std::string_view text) {
    MountRequest scratch;
    scratch.kind = MountRequest::Kind::tmpfs;
    if (fields.size() == 1 && !fields[0].text.empty() && apply_mount_flag(scratch, fields[0].text).empty())
        fail(text, fields[0].position, cat("flags are joined by +; write +", fields[0].text, " in place of ,",
                                           fields[0].text));
}

MountRequest mount_of(const MountFields& fields, std::string_view text) {
    MountRequest mount;
    if (fields[0].position > 0) refuse_flag(fields, text);
    set_source(mount, fields[0], text);
    set_target(mount, fields, text);
    if (fields.size() > 2) apply_flags(mount, fields[2], text);
    if (fields.size() > 3)
        fail(text, fields[3].position - 1, "a mount is SRC[:DST[:FLAG+FLAG]]; write \\: for a colon in a path");
    return mount;
}

}  // namespace

std::vector<MountRequest> parse_mounts(std::string_view text) {
    std::vector<MountRequest> out;
    for (const MountFields& fields : fields_of(text)) out.push_back(mount_of(fields, text));
    return out;
}

std::string normalised(std::string_view path) {
    std::vector<std::string> parts;
    for (std::string& part : split(path, '/')) {
        if (part == ".." && !parts.empty()) parts.pop_back();
        if (!part.empty() && part != "." && part != "..") parts.push_back(std::move(part));
    }
    std::string out;
    for (const std::string& part : parts) out += "/" + part;
    return out.empty() ? "/" : out;
}

std::string forbidden_target(std::string_view target) {
    std::string path = normalised(target);
    if (path == "/") return "a mount over / would hide the image (name a directory below it)";
    for (std::string_view kept : {"/proc", "/sys", "/dev"})
        if (path == kept)
            return cat("a mount over ", kept, " would hide what every program needs there (name something below it)");
    // /proc is the host's: what lies there belongs to processes, and a mount over it would be seen by all programs
    // inside as the truth.
    if (path.starts_with("/proc/")) return "a mount below /proc is not possible (it shows the kernel's processes)";
    return {};
}

}  // namespace berth::plan
