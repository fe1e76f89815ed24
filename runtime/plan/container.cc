#include "runtime/plan/container.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

constexpr std::string_view heading = "berth-container 1\n";
constexpr uint64_t value_limit = 1 << 20;

void put(std::string& out, std::string_view key, std::string_view value) {
    out += cat(key, ' ', value.size(), '\n', value, '\n');
}

void put_choice(std::string& out, std::string_view key, const std::optional<bool>& value) {
    if (value) put(out, key, *value ? "true" : "false");
}

/// False for a word that is no namespace's.
bool set_namespace(OwnNamespaces& own, std::string_view word) {
    for (const NamespaceKind& kind : namespace_kinds)
        if (word == kind.word) return own.*kind.wanted = true;
    return false;
}

void set(ContainerRecord& record, std::string_view key, std::string value, const std::string& what) {
    uint64_t number = 0;
    auto flag = [&] { return parse_bool(value, cat(what, ": ", key)); };
    if (key == "image")
        record.image = std::move(value);
    else if (key == "digest")
        record.digest = std::move(value);
    else if (key == "image-file")
        record.image_file = std::move(value);
    else if (key == "identity")
        record.identity = std::move(value);
    else if (key == "created" && parse_number(value, INT64_MAX, number))
        record.created = static_cast<int64_t>(number);
    else if (key == "mount")
        record.mounts.push_back(std::move(value));
    else if (key == "mount-home")
        record.mount_home = flag();
    else if (key == "remap-root")
        record.remap_root = flag();
    else if (key == "writable")
        record.writable = flag();
    else if (key == "unshare" && set_namespace(record.unshare, value))
        return;
    else
        throw Error(cat("reading ", what, ": '", printable(key),
                        "' is unknown to this version of berth; it was written by another one"));
}

}  // namespace

std::string record_text(const ContainerRecord& record) {
    std::string out(heading);
    put(out, "image", record.image);
    put(out, "digest", record.digest);
    put(out, "image-file", record.image_file);
    put(out, "identity", record.identity);
    put(out, "created", std::to_string(record.created));
    for (const std::string& mount : record.mounts) put(out, "mount", mount);
    put_choice(out, "mount-home", record.mount_home);
    put_choice(out, "remap-root", record.remap_root);
    put_choice(out, "writable", record.writable);
    for (const NamespaceKind& kind : namespace_kinds)
        if (record.unshare.*kind.wanted) put(out, "unshare", kind.word);
    return out;
}

ContainerRecord parse_record(std::string_view text, const std::string& what) {
    auto damaged = [&] {
        return Error(
            cat("reading ", what, ": it is damaged or of another version; remove the container with berth rm"));
    };
    if (!text.starts_with(heading)) throw damaged();
    text.remove_prefix(heading.size());
    ContainerRecord out;
    while (!text.empty()) {
        size_t end = text.find('\n'), blank = text.find(' ');
        uint64_t length = 0;
        if (end == text.npos || blank > end ||
            !parse_number(text.substr(blank + 1, end - blank - 1), value_limit, length))
            throw damaged();
        std::string_view key = text.substr(0, blank);
        text.remove_prefix(end + 1);
        if (text.size() <= length || text[length] != '\n') throw damaged();
        set(out, key, std::string(text.substr(0, length)), what);
        text.remove_prefix(length + 1);
    }
    return out;
}

NameAction action_for(const ContainerName& wanted, bool exists, bool runs) {
    auto refuse = [&](const char* why) { throw Error(cat("container ", wanted.name, ": ", why)); };
    if (wanted.mode == NameMode::create && exists)
        refuse("it exists already (asked for with :create); use another name, or remove it with berth rm");
    if (wanted.mode == NameMode::exec && !runs)
        refuse(exists ? "it does not run (asked for with :exec)" : "there is none of that name (asked for with :exec)");
    if (wanted.mode == NameMode::no_exec && exists && runs) return NameAction::beside;
    return runs ? NameAction::join : exists ? NameAction::start : NameAction::create;
}

}  // namespace berth::plan
