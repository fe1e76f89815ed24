#include "runtime/migrate/settings.hh"

#include <algorithm>
#include <iterator>
#include <span>

#include "runtime/base/text.hh"

namespace berth::migrate {

namespace {

/// The value without a shell; a report, and nothing, where only a shell could tell it.
std::optional<std::string> plain_text(Draft& draft, const Row& row, const Found& found) {
    if (auto text = found.value.text()) return text;
    draft.report({Fate::unplaced, found.place, {},
                  cat("berth.conf has no place for ", printable(found.value.expression()), "; write a value without it",
                      row.key.empty() ? "" : cat(" to ", row.key))});
    return std::nullopt;
}

void report_no_sign(Draft& draft, const Row& row, const Found& found, Signs signs, const std::string& became = {}) {
    draft.report({Fate::unplaced, found.place, became,
                  cat(row.key, " has no sign for ", printable(found.value.expression_without_sign(signs)),
                      "; write another path to it")});
}

void report_plain(Draft& draft, const Row& row, const Found& found) {
    draft.report({row.change.empty() ? Fate::kept : Fate::changed, found.place, {}, std::string(row.change)});
}

void report_unplaced(Draft& draft, const Row& row, const Found& found) {
    draft.report({Fate::unplaced, found.place, {}, std::string(row.remedy)});
}

// What the rows of the tables do.

/// Whatever the value is, Berth needs none.
void no_need(Draft& draft, const Row& row, const Found& found) { report_plain(draft, row, found); }

/// Berth never does it: no is as before, yes has no place.
void never(Draft& draft, const Row& row, const Found& found) {
    if (is_no(found.value.text().value_or("?")))
        draft.report({Fate::kept, found.place, {}, {}});
    else
        report_unplaced(draft, row, found);
}

/// Berth always does it: yes is as before.
void always(Draft& draft, const Row& row, const Found& found) {
    if (is_no(found.value.text().value_or("?")))
        report_plain(draft, row, found);
    else
        draft.report({Fate::kept, found.place, {}, {}});
}

void set_flag(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    report_answer(draft, row, found, draft.set(std::string(row.key), {flag_form(!is_no(*text))}, found.place));
}

/// ENROOT_UNSHARE_IPC is the word ipc.
void add_namespace(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    if (is_no(*text)) return draft.report({Fate::kept, found.place, {}, {}});
    std::string word = lower(found.name.substr(found.name.rfind('_') + 1));
    report_answer(draft, row, found, draft.add_word(std::string(row.key), word, found.place));
}

/// Berth counts to 64, and Enroot's 0 is no limit.
void set_connections(Draft& draft, const Row& row, const Found& found) {
    constexpr uint64_t most = 64;
    auto text = plain_text(draft, row, found);
    if (!text) return;
    uint64_t number = 0;
    if (!parse_number(*text, UINT32_MAX, number)) return report_unplaced(draft, row, found);
    bool beyond = number == 0 || number > most;
    Answer answer = draft.set(std::string(row.key), {std::to_string(beyond ? most : number)}, found.place);
    Row with = row;
    if (beyond) with.change = "64 connections are the most";
    report_answer(draft, with, found, answer);
}

/// `path` with a folder for each user.
std::string of_each_user(std::string path) {
    for (const char* sign : {"%U", "%u", "%h"})
        if (path.find(sign) != path.npos) return path;
    return path + "/%U";
}

/// Enroot's containers were there, so that there is room, and users may write.
void set_data_path(Draft& draft, const Row& row, const Found& found) {
    std::string became;
    auto set = [&](const char* key, const std::string& path) {
        if (draft.set(key, {text_form(path)}, found.place) == Answer::taken)
            became += cat(became.empty() ? "" : ", ", draft.shown(key));
    };
    auto path = found.value.path(Signs::of_user), of_job = found.value.path(Signs::of_job);
    for (auto* one : {&path, &of_job})
        while (*one && (*one)->ends_with('/')) (*one)->pop_back();
    if (path) {
        set("store.path", of_each_user(*path) + "/berth-images");
        set("data.path", of_each_user(*path) + "/berth-containers");
    }
    // It gets a folder for each user by itself.
    if (of_job) set("mount.upper", *of_job);
    if (!path) return report_no_sign(draft, row, found, Signs::of_user, became);
    std::string why(row.change);
    if (draft.shown("mount.upper").empty())
        why += "; what an unnamed container writes is in memory, not in this folder";
    draft.report({became.empty() ? Fate::unplaced : Fate::changed, found.place, became, why});
}

/// Where .credentials is. Berth reads that of ~/.config/enroot without being told.
void set_config_path(Draft& draft, const Row& row, const Found& found) {
    auto path = found.value.path(Signs::of_user);
    if (!path) return report_no_sign(draft, row, found, Signs::of_user);
    if (*path == "%h/.config/enroot") return draft.report({Fate::kept, found.place, {}, {}});
    report_answer(draft, row, found, draft.set(std::string(row.key), {text_form(*path)}, found.place));
}

std::string option_of(const std::vector<std::string>& words, std::string_view name) {
    auto at = std::find(words.begin(), words.end(), name);
    return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
}

/// Options of mksquashfs. Where data is not compressed at all, the codec does not matter.
void set_compression(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    std::vector<std::string> words = split(*text, ' ');
    bool plain = std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word == "-noD" || word == "-noDataCompression" || word == "--no-compression";
    });
    std::string codec = plain ? "none" : option_of(words, "-comp");
    std::string level = plain ? std::string() : option_of(words, "-Xcompression-level");
    if (codec.empty()) codec = "gzip";  // mksquashfs' own default
    Answer answer = draft.set(std::string(row.key), {text_form(codec)}, found.place);
    if (answer == Answer::taken && !level.empty()) draft.set("store.compression_level", {level}, found.place);
    std::string became = draft.shown(std::string(row.key));
    if (std::string shown = draft.shown("store.compression_level"); !shown.empty()) became += cat(", ", shown);
    if (answer == Answer::refused)
        draft.report({Fate::changed, found.place, {},
                      cat("layers are stored with zstd: there is no ", printable(codec))});
    else
        draft.report({Fate::kept, found.place, became, std::string(plain ? row.change : "")});
}

/// "[http://]host:port".
void set_proxy(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    if (text->empty()) return draft.report({Fate::kept, found.place, {}, {}});
    size_t scheme = text->find("://");
    if (scheme != text->npos && !text->starts_with("http://")) return report_unplaced(draft, row, found);
    while (text->ends_with('/')) text->pop_back();
    report_answer(draft, row, found, draft.set(std::string(row.key), {text_form(*text)}, found.place));
}

void set_text(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    report_answer(draft, row, found, draft.set(std::string(row.key), {text_form(*text)}, found.place));
}

/// The node's whole /dev, or the devices that Berth adds one by one.
void set_dev(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    std::string key(row.key);
    if (!is_no(*text)) {
        draft.set(key, {flag_form(true)}, found.place);
        return draft.report({Fate::kept, found.place, draft.shown(key), {}});
    }
    if (!found.by_default && draft.set(key, {flag_form(false)}, found.place) == Answer::taken)
        return draft.report({Fate::kept, found.place, draft.shown(key), {}});
    draft.set("devices.rdma", {text_form("auto")}, found.place);
    draft.report({found.by_default ? Fate::changed : Fate::unplaced, found.place, draft.shown("devices.rdma"),
                  std::string(found.by_default ? row.change : row.remedy)});
}

/// Words of Pyxis for yes and no.
void set_pyxis_flag(Draft& draft, const Row& row, const Found& found) {
    std::string value = found.value.text().value_or("");
    bool yes = value == "1" || value == "true" || value == "yes" || value == "y";
    report_answer(draft, row, found, draft.set(std::string(row.key), {flag_form(yes)}, found.place));
}

/// Settings of Enroot 4.1.2 (conf/enroot.conf.in, enroot.in, doc/configuration.md).
constexpr Row rows[] = {
    {"ENROOT_LIBRARY_PATH", no_need, "", "no files of Enroot are used", ""},
    {"ENROOT_SYSCONF_PATH", no_need, "", "no files of Enroot are used", ""},
    {"ENROOT_RUNTIME_PATH", no_need, "", "sockets and locks are in /run/berth", ""},
    {"ENROOT_TEMP_PATH", no_need, "", "a pull writes to the store directly", ""},
    {"ENROOT_CACHE_PATH", no_need, "", "the store keeps each layer once, in the form in which it is used", ""},
    {"ENROOT_DATA_PATH", set_data_path, "data.path",
     "Berth has folders of its own in there, which must be on a disk of the node; an epilog "
     "that empties it empties them too; nothing that Enroot left is used", ""},
    {"ENROOT_CONFIG_PATH", set_config_path, "registry.auth_path", "",
     "logins are read from ~/.config/enroot/.credentials; move the file there, or set ENROOT_CONFIG_PATH in jobs"},
    {"ENROOT_ROOTFS_WRITABLE", set_flag, "defaults.writable", "", ""},
    {"ENROOT_REMAP_ROOT", set_flag, "defaults.remap_root", "", ""},
    {"ENROOT_MOUNT_HOME", set_flag, "defaults.mount_home", "", ""},
    {"ENROOT_RESTRICT_DEV", set_dev, "devices.restrict",
     "/dev is private: GPUs and adapters that the user may open are in it, and what else is asked for",
     "of the node's /dev a container has GPUs and adapters that the user may open; for other devices use devices.cdi, "
     "or programs of hooks.folder, see berth-hooks(7)"},
    {"ENROOT_UNSHARE_NET", add_namespace, "defaults.unshare", "", "users write --container-unshare=net"},
    {"ENROOT_UNSHARE_UTS", add_namespace, "defaults.unshare", "", "users write --container-unshare=uts"},
    {"ENROOT_UNSHARE_IPC", add_namespace, "defaults.unshare", "", "users write --container-unshare=ipc"},
    {"ENROOT_UNSHARE_PID", add_namespace, "defaults.unshare",
     "only for berth run: Slurm counts and signals the processes of steps by their pids on the node", ""},
    {"ENROOT_MAX_CONNECTIONS", set_connections, "network.connections", "", "write a number from 1 to 64 to "
     "network.connections"},
    {"ENROOT_MAX_PROCESSORS", no_need, "", "a pull uses the CPUs of the step, within limits.pull_memory", ""},
    {"ENROOT_CONNECT_TIMEOUT", no_need, "", "a transfer that stalls or breaks is resumed where it stopped", ""},
    {"ENROOT_TRANSFER_TIMEOUT", no_need, "", "a transfer that stalls or breaks is resumed where it stopped; "
     "limits.pull_time ends a pull", ""},
    {"ENROOT_TRANSFER_RETRIES", no_need, "", "a transfer that stalls or breaks is resumed where it stopped", ""},
    {"ENROOT_SQUASH_OPTIONS", set_compression, "store.compression",
     "without this line layers are stored with zstd and need less room", ""},
    {"ENROOT_ZSTD_OPTIONS", no_need, "", "layers are compressed once, see store.compression", ""},
    {"ENROOT_GZIP_PROGRAM", no_need, "", "no program is run for it", ""},
    {"ENROOT_LOGIN_SHELL", no_need, "", "no shell is run", ""},
    {"ENROOT_NATIVE_OVERLAYFS", always, "", "overlays are always native", ""},
    {"ENROOT_FORCE_OVERRIDE", no_need, "", "berth rm and berth import have options of their own", ""},
    {"ENROOT_SET_USER_XATTRS", no_need, "", "files keep the attributes that the image has", ""},
    {"ENROOT_DEBUG", no_need, "", "BERTH_LOG=debug, berth run -v and BERTH_PLAN=1 tell what a start does", ""},
    {"ENROOT_ALLOW_SUPERUSER", never, "", "", "no process in a container has privileges of root on the node; run such "
     "programs without a container"},
    {"ENROOT_ALLOW_HTTP", never, "",  "", "plain HTTP is a setting of each registry: write plain_http = true to its "
     "table [registry.\"HOST\"]"},
    {"ENROOT_BUNDLE_ALL", never, "", "", "there are no bundles; use berth import, which makes one squashfs file"},
    {"ENROOT_BUNDLE_CHECKSUM", never, "", "", "there are no bundles; use berth import, which makes one squashfs file"},
    {"SSL_CERT_FILE", never, "", "", "authorities are a setting of each registry: write ca = \"FILE\" to its table "
     "[registry.\"HOST\"], or add them to the system's"},
    {"SSL_CERT_DIR", never, "", "", "authorities are a setting of each registry: write ca = \"FILE\" to its table "
     "[registry.\"HOST\"], or add them to the system's"},
    {"https_proxy", set_proxy, "network.proxy", "", "only HTTP proxies are used, by [http://]host:port"},
    {"all_proxy", set_proxy, "network.proxy", "", "only HTTP proxies are used, by [http://]host:port"},
    {"http_proxy", set_proxy, "network.proxy", "", "only HTTP proxies are used, by [http://]host:port"},
    {"no_proxy", set_text, "network.no_proxy", "", ""},
    {"MELLANOX_VISIBLE_DEVICES", set_rdma, "devices.rdma", "", ""},
    {"MELLANOX_*", set_variable, "site.environment", "", ""},
    {"NVIDIA_*", set_variable, "site.environment", "", ""},
};

/// Words of Pyxis 0.24 (its config.c).
constexpr Row pyxis_rows[] = {
    {"execute_entrypoint", set_pyxis_flag, "defaults.entrypoint", "", ""},
    {"container_scope", set_text, "defaults.container_scope", "", ""},
    {"sbatch_support", no_need, "", "write the same word to the line of spank_berth.so in plugstack.conf", ""},
    {"runtime_path", no_need, "", "sockets and locks are in /run/berth", ""},
    {"importer", no_need, "", "not run: the steps of a user on a node share layers and images. For a cache of the site "
     "set mirror in [registry.\"HOST\"], or write images by berth import", ""},
    {"use_enroot_load", no_need, "", "a pull never unpacks an image", ""},
    {"use_squashfuse", no_need, "", "Berth's own file server mounts images, and nothing is extracted", ""},
};

const Row* find_row(std::span<const Row> table, std::string_view name) {
    for (const Row& row : table) {
        bool prefix = row.name.ends_with('*') && name.starts_with(row.name.substr(0, row.name.size() - 1));
        if (prefix || row.name == name) return &row;
    }
    return nullptr;
}

}  // namespace

void report_answer(Draft& draft, const Row& row, const Found& found, Answer answer) {
    std::string key(row.key);
    switch (answer) {
        case Answer::taken:
            return draft.report({row.change.empty() ? Fate::kept : Fate::changed, found.place, draft.shown(key),
                                 std::string(row.change)});
        case Answer::other:
            return draft.report({Fate::unplaced, found.place, {},
                                 cat(key, " has one value, and that of ", draft.origin(key),
                                     " is written; remove one of them, or write it by hand")});
        case Answer::refused:
        case Answer::no_key:
            return draft.report({Fate::unplaced, found.place, {},
                                 row.remedy.empty() ? cat(key, " does not take the value, see berth.conf(5)")
                                                    : std::string(row.remedy)});
    }
}

void set_variable(Draft& draft, const Row& row, const Found& found) {
    Value::Piece own{cat("$", found.name), true};
    if (found.value.pieces.size() == 1 && found.value.pieces[0] == own)
        return draft.report({Fate::kept, found.place, {}, "a container has the variables of the job"});
    auto text = found.value.path(Signs::of_job);
    if (!text) return report_no_sign(draft, row, found, Signs::of_job);
    Row with = row;
    with.remedy = "a program of hooks.folder can set it for all containers, see env in berth-hooks(7)";
    report_answer(draft, with, found, draft.add_item(std::string(row.key), cat(found.name, "=", *text), found.place));
}

/// Lists of adapters are the job's matter: the key has those that the step may open, or those asked for.
void set_rdma(Draft& draft, const Row& row, const Found& found) {
    auto text = plain_text(draft, row, found);
    if (!text) return;
    std::string key(row.key);
    if (*text == "all")
        return report_answer(draft, row, found, draft.set(key, {text_form("auto")}, found.place));
    if (text->empty() || *text == "void" || *text == "none")
        return report_answer(draft, row, found, draft.set(key, {text_form("asked"), text_form("auto")}, found.place));
    Row variable = row;
    variable.key = "site.environment";
    set_variable(draft, variable, found);
}

void decide_setting(Draft& draft, const Found& found) {
    if (const Row* row = find_row(rows, found.name)) return row->decide(draft, *row, found);
    bool enroots = found.name.starts_with("ENROOT_");
    draft.report({Fate::unplaced, found.place, {},
                  enroots ? "Enroot 4.1.2 has no such setting; look for scripts of the site that read it"
                          : "Enroot does not read this line; remove it"});
}

void decide_defaults(Draft& draft, const std::string& file, const std::vector<std::string>& names) {
    for (std::string_view name : {"ENROOT_ROOTFS_WRITABLE", "ENROOT_RESTRICT_DEV"}) {
        if (std::find(names.begin(), names.end(), name) != names.end()) continue;
        const Row* row = find_row(rows, name);
        row->decide(draft, *row,
                    {std::string(name), parse_plain_value("no"), {file, 0, cat(name, " no (Enroot's default)")}, true});
    }
    Place place{file, 0, "mounts of users are slaves of the node's (Enroot's default)"};
    Answer answer = draft.set("defaults.mount_propagation", {text_form("rslave"), text_form("slave")}, place);
    if (answer == Answer::taken)
        draft.report({Fate::kept, place, draft.shown("defaults.mount_propagation"), {}});
    else
        draft.report({Fate::changed, place, {},
                      "what is mounted later below such a mount, as by autofs, appears with the flag slave only"});
}

void decide_word(Draft& draft, const Found& found) {
    if (const Row* row = find_row(pyxis_rows, found.name)) return row->decide(draft, *row, found);
    draft.report({Fate::unplaced, found.place, {}, "Pyxis 0.24 has no such word; leave it out of Berth's line"});
}

}  // namespace berth::migrate
