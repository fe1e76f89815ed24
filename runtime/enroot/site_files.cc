#include "runtime/enroot/site_files.hh"

#include <algorithm>
#include <array>

#include "runtime/base/text.hh"
#include "runtime/request/mount_flags.hh"
#include "runtime/request/mounts.hh"

namespace berth::enroot {

namespace {

bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view text) {
    return !text.empty() && is_name_start(text[0]) && std::ranges::all_of(text, is_name_part);
}

/// Blanks and tabs, and a backslash, as getmntent(3) writes them.
std::string unescaped(std::string_view field) {
    std::string out;
    for (size_t at = 0; at < field.size(); ++at) {
        auto digit = [&](size_t i) { return at + i < field.size() && field[at + i] >= '0' && field[at + i] <= '7'; };
        if (field[at] == '\\' && digit(1) && digit(2) && digit(3)) {
            out += static_cast<char>((field[at + 1] - '0') * 64 + (field[at + 2] - '0') * 8 + (field[at + 3] - '0'));
            at += 3;
        } else {
            out += field[at];
        }
    }
    return out;
}

std::vector<std::string> fields_of(const std::string& line) {
    std::string blanks = line;
    std::ranges::replace(blanks, '\t', ' ');
    std::vector<std::string> out;
    for (const std::string& word : split(blanks, ' '))
        if (!word.empty()) out.push_back(word);
    return out;
}

bool is_option(const std::string& field) {
    if (field.find(',') != std::string::npos) return true;
    plan::MountRequest any;
    return field == "x-detach" || field == "x-move" || field == "remount" || plan::apply_mount_flag(any, field).empty();
}

/// Source, target, type and options, guessed as Enroot does where there are fewer.
struct Entry {
    std::string source, target, type, options;
};

Entry entry_of(std::vector<std::string> fields) {
    fields.resize(4);
    Entry out{unescaped(fields[0]), unescaped(fields[1]), fields[2], fields[3]};
    if (!out.target.empty() && out.type.empty() && is_option(out.target)) {
        out.options = std::exchange(out.target, "");
    } else if (!out.type.empty() && out.options.empty() && is_option(out.type)) {
        out.options = std::exchange(out.type, "none");
        if (out.target == "none") out.target.clear();
    }
    if (out.source == "tmpfs" && (out.type.empty() || out.type == "none")) out.type = "tmpfs";
    if (out.target.empty() && out.type != "tmpfs") out.target = out.source;
    if (out.type.empty()) out.type = "none";
    return out;
}

/// What a user namespace cannot give, and says so to nobody in Enroot either.
bool means_nothing(const std::string& option) {
    return option.empty() || option == "silent" || option == "loud" || option == "suid" || option == "dev";
}

std::string apply_options(plan::MountRequest& mount, const std::string& options) {
    if (std::string why = take_kind(mount, split(options, ',')); !why.empty()) return why;
    for (const std::string& option : split(options, ',')) {
        if (means_nothing(option)) continue;
        if (option == "remount" || option == "x-move") return cat("the option '", option, "' is not possible");
        if (std::string why = plan::apply_mount_flag(mount, option); !why.empty()) return why;
    }
    return {};
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> list) {
    return std::ranges::any_of(list, [&](const char* one) { return text == one; });
}

/// Made for every container: see plan/system_edits.
bool has_anyway(const plan::MountRequest& mount) {
    const std::string& target = mount.target;
    if (mount.kind == plan::MountRequest::Kind::tmpfs)
        return is_one_of(target, {"/tmp", "/run", "/var/run", "/var/lock", "/run/lock"});
    return is_one_of(target, {"/proc", "/sys", "/dev"}) ||
           (mount.source == target &&
            is_one_of(target, {"/dev/shm", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id"}));
}

FstabLine line_of(const Entry& entry) {
    FstabLine out;
    plan::MountRequest& mount = out.mount;
    bool detach = std::ranges::count(split(entry.options, ','), "x-detach") > 0;
    mount.kind = entry.type == "tmpfs"      ? plan::MountRequest::Kind::tmpfs
                 : detach                   ? plan::MountRequest::Kind::umount
                 : entry.type == "squashfs" ? plan::MountRequest::Kind::squashfs
                                            : plan::MountRequest::Kind::bind;
    bool of_node = mount.kind == plan::MountRequest::Kind::bind || mount.kind == plan::MountRequest::Kind::squashfs;
    if (of_node) mount.source = entry.source;
    mount.read_only = mount.kind == plan::MountRequest::Kind::squashfs;
    mount.target = plan::normalised("/" + entry.target);
    if (entry.target.empty()) {
        out.left_out = "it has no target";
    } else if (entry.type != "none" && entry.type != "tmpfs" && entry.type != "bind" &&
               entry.type != "squashfs") {
        out.left_out =
            cat("the type ", printable(entry.type), " is not possible (none for a bind, tmpfs, or squashfs)");
    } else if (of_node && !entry.source.starts_with('/')) {
        out.left_out = "its source is no absolute path";
    } else {
        out.left_out = apply_options(mount, entry.options);
    }
    if (out.left_out.empty() && !has_anyway(mount)) out.left_out = plan::forbidden_target(mount.target);
    return out;
}

}  // namespace

std::string with_variables(std::string_view text, const VariableValue& value) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        size_t end = text.substr(at).starts_with("${") ? text.find('}', at) : text.npos;
        std::string_view name = end == text.npos ? "" : text.substr(at + 2, end - at - 2);
        if (is_name(name)) {
            out += value(std::string(name));
            at = end + 1;
        } else {
            out += text[at++];
        }
    }
    return out;
}

std::vector<std::string> variable_lines(std::string_view text, const VariableValue& value) {
    std::vector<std::string> out;
    for (const std::string& line : split(text, '\n')) {
        std::string replaced = with_variables(line, value);
        std::string_view entry = replaced;
        while (entry.starts_with(' ') || entry.starts_with('\t')) entry.remove_prefix(1);
        size_t equals = entry.find('=');
        if (equals == entry.npos || !is_name(entry.substr(0, equals)) || entry.starts_with("ENROOT_")) continue;
        std::string_view rest = entry.substr(equals + 1), bare = rest;
        while (bare.ends_with(' ') || bare.ends_with('\t') || bare.ends_with('\r')) bare.remove_suffix(1);
        bool quoted = bare.size() >= 2 && (bare.front() == '"' || bare.front() == '\'') &&
                      (bare.back() == '"' || bare.back() == '\'');
        if (quoted) rest = bare.substr(1, bare.size() - 2);
        if (rest.find('\0') != rest.npos || (rest.empty() && replaced != line)) continue;
        out.push_back(cat(entry.substr(0, equals), "=", rest));
    }
    return out;
}

std::vector<FstabLine> mount_lines(std::string_view text, const VariableValue& value) {
    std::vector<FstabLine> out;
    unsigned number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        std::vector<std::string> written = fields_of(std::string(trimmed(line))),
                                 fields = fields_of(with_variables(trimmed(line), value));
        if (fields.empty() || fields[0].starts_with('#') || line.find('\0') != line.npos) continue;
        FstabLine one = line_of(entry_of(fields));
        if (has_anyway(one.mount)) continue;
        one.number = number;
        one.of_variable = written[0].find("${") != std::string::npos;
        out.push_back(std::move(one));
    }
    return out;
}

}  // namespace berth::enroot
