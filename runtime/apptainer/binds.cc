#include "runtime/apptainer/binds.hh"

#include <algorithm>

#include "runtime/apptainer/flags.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

constexpr const char* of_images =
    "of an image only all files are mounted; write image-src=/ and name the directory below the target, or extract "
    "what is wanted by apptainer exec IMAGE cp";
constexpr const char* of_parts = "id= is not possible: the file system of a SIF file is the one that apptainer runs";

/// Pieces between `separator`; a separator behind a backslash is a character, and its backslash goes.
std::vector<std::string> pieces(std::string_view text, char separator) {
    std::vector<std::string> out(1);
    for (size_t i = 0; i < text.size(); ++i) {
        bool escaped = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == separator;
        if (escaped)
            out.back() += text[++i];
        else if (text[i] == separator)
            out.emplace_back();
        else
            out.back() += text[i];
    }
    return out;
}

bool is_option(const std::string& word) {
    return word == "ro" || word == "rw" || word.starts_with("image-src=") || word.starts_with("id=");
}

/// A comma parts both mounts and the options of one: what is an option belongs to a mount that has a target.
std::vector<std::string> mounts_between_commas(std::string_view text) {
    std::vector<std::string> out;
    for (const std::string& piece : pieces(text, ',')) {
        bool has_options = !out.empty() && pieces(out.back(), ':').size() == 3;
        if (has_options && is_option(piece))
            out.back() += "," + piece;
        else if (!trimmed(piece).empty())
            out.emplace_back(trimmed(piece));
    }
    return out;
}

/// What is in the squashfs or SIF file that the source is, all of it.
void take_image(plan::MountRequest& mount) {
    mount.kind = plan::MountRequest::Kind::squashfs;
    mount.read_only = true;
}

bool is_root(std::string_view path) { return !path.empty() && path.find_first_not_of('/') == path.npos; }

void apply_option(Bind& bind, const std::string& word, const std::string& whole) {
    constexpr std::string_view image = "image-src=";
    auto refuse = [&](const char* why) { throw Error(cat("--bind ", printable(whole, 4096), ": ", why)); };
    if (word == "ro")
        bind.mount.read_only = true;
    else if (word.starts_with(image))
        is_root(std::string_view(word).substr(image.size())) ? take_image(bind.mount) : refuse(of_images);
    else if (word.starts_with("id="))
        refuse(of_parts);
    else if (word != "rw")
        throw Error(cat("--bind ", printable(whole, 4096), ": ", printable(word), " is no option; write ro or rw"));
}

Bind checked(Bind bind, std::string_view option, std::string_view whole) {
    auto refuse = [&](const std::string& why) {
        throw Error(cat(option, ' ', printable(whole, 4096), ": ", why));
    };
    if (bind.mount.source.empty()) refuse("the source is missing; write SRC:DST");
    if (bind.mount.target.empty())
        bind.mount.target = bind.mount.source;
    else if (!bind.mount.target.starts_with('/'))
        refuse("the destination is to be absolute; write SRC:/DST");
    return bind;
}

Bind bind_of(const std::string& text) {
    std::vector<std::string> fields = pieces(text, ':');
    if (fields.size() > 3)
        throw Error(cat("--bind ", printable(text, 4096), ": there are more than two colons; write SRC:DST:OPTIONS, "
                                                          "and \\: for a colon in a path"));
    Bind out;
    out.mount.source = fields[0];
    if (fields.size() > 1) out.mount.target = fields[1];
    if (fields.size() > 2)
        for (const std::string& word : split(fields[2], ',')) apply_option(out, word, text);
    return checked(std::move(out), "--bind", text);
}

void apply_field(Bind& bind, const std::string& field, std::string_view whole) {
    auto refuse = [&](const std::string& why) {
        throw Error(cat("--mount ", printable(whole, 4096), ": ", why));
    };
    std::string key = field.substr(0, field.find('=')), value;
    if (key.size() < field.size()) value = field.substr(key.size() + 1);
    if (key == "type" && value != "bind")
        refuse(cat("the type ", printable(value), " is not mounted; write type=bind, or --scratch for a tmpfs"));
    else if (key == "source" || key == "src")
        bind.mount.source = value;
    else if (key == "destination" || key == "dst" || key == "target")
        bind.mount.target = value;
    else if (key == "ro" || key == "readonly")
        bind.mount.read_only = true;
    else if (key == "nonested")
        bind.nested = false;
    else if (key == "image-src")
        is_root(value) ? take_image(bind.mount) : refuse(of_images);
    else if (key == "id")
        refuse(of_parts);
    else if (key == "bind-propagation")
        refuse("propagation is the site's, by defaults.mount_propagation of berth.conf");
    else if (key != "type")
        refuse(cat(printable(key), " is no word of it; write type=bind,source=SRC,destination=DST,ro"));
}

}  // namespace

std::vector<Bind> binds_of(std::string_view text) {
    std::vector<Bind> out;
    for (const std::string& one : mounts_between_commas(text)) out.push_back(bind_of(one));
    return out;
}

std::vector<Bind> binds_of_mount(std::string_view text) {
    std::vector<Bind> out;
    for (const std::string& line : split(text, '\n')) {
        if (trimmed(line).empty()) continue;
        Bind one;
        for (const std::string& field : csv_fields(line)) apply_field(one, field, line);
        if (one.mount.target.empty())
            throw Error(cat("--mount ", printable(line, 4096), ": the destination is missing; write destination=DST"));
        out.push_back(checked(std::move(one), "--mount", line));
    }
    return out;
}

}  // namespace berth::apptainer
