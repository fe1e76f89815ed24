#include "runtime/migrate/migrate.hh"

#include <algorithm>
#include <map>

#include "runtime/base/text.hh"
#include "runtime/migrate/folders.hh"
#include "runtime/migrate/lines.hh"
#include "runtime/migrate/registries.hh"
#include "runtime/migrate/settings.hh"

namespace berth::migrate {

namespace {

/// Of several lines for one setting the first one counts (enroot.in, config::export), those of drop-ins included.
void decide_settings(Draft& draft, const Configuration& from) {
    std::map<std::string, std::string> first;
    for (const File& file : from.settings)
        for (const Setting& setting : parse_enroot_conf(file.text)) {
            bool named = !setting.name.empty();
            Place place{file.path, setting.line, cat(setting.name, named ? " " : "", setting.value)};
            if (named && first.contains(setting.name)) {
                draft.report({Fate::kept, place, {},
                              cat("without effect, as in Enroot: ", first[setting.name], " counts")});
                continue;
            }
            if (named && !setting.value.empty()) first[setting.name] = place.text();
            decide_setting(draft, {setting.name, parse_value(setting.value), place});
        }
    std::vector<std::string> names;
    for (const auto& [name, place] : first) names.push_back(name);
    decide_defaults(draft, cat(from.folder, "/enroot.conf"), names);
}

void decide_folders(Draft& draft, const Folders& folders, Owner owner) {
    for (const File& file : folders.environ)
        for (const Setting& setting : parse_environ(file.text)) decide_variable(draft, setting, file.path, owner);
    for (const File& file : folders.mounts)
        for (const FstabLine& line : parse_fstab(file.text)) decide_mount(draft, line, file.path, owner);
    for (const HookFile& hook : folders.hooks) decide_hook(draft, hook, owner);
    for (const File& file : folders.credentials)
        for (const Login& login : parse_credentials(file.text)) decide_login(draft, login, file.path);
    for (const std::string& path : folders.passed_over)
        draft.report({Fate::kept, {path, 0, "file"}, {}, "Enroot does not read a file of this name"});
}

void decide_plugin(Draft& draft, const Plugstack::Plugin& plugin, const std::string& file) {
    Place line{file, plugin.line, plugin.path.substr(plugin.path.rfind('/') + 1)};
    draft.report({Fate::changed, line, {},
                  "Pyxis does the work until this line is taken out; berth setup plugstack --enable makes Berth's"});
    for (const std::string& word : plugin.words) {
        size_t equals = std::min(word.find('='), word.size());
        std::string value = word.substr(std::min(equals + 1, word.size()));
        decide_word(draft, {word.substr(0, equals), {{{value, false}}}, {file, plugin.line, word}});
    }
}

/// Lines of other plugins stay as they are.
void decide_plugstack(Draft& draft, const File& file) {
    for (const Plugstack::Plugin& plugin : parse_plugstack(file.text).plugins)
        if (plugin.path.substr(plugin.path.rfind('/') + 1).find("pyxis") != std::string::npos)
            decide_plugin(draft, plugin, file.path);
}

}  // namespace

size_t Migration::count(Fate fate) const {
    return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                             [&](const Finding& one) { return one.fate == fate; }));
}

Migration migrated(const Configuration& from, const Reader& reader) {
    Draft draft(reader);
    decide_settings(draft, from);
    decide_folders(draft, from.site, Owner::site);
    for (const File& file : from.plugstack) decide_plugstack(draft, file);
    for (const File& file : from.registries) decide_registries(draft, file.path, file.text);
    for (const File& file : from.hosts) decide_hosts(draft, file.path, file.text);
    decide_certificates(draft, from.certificates);
    for (const Folders& folders : from.users) decide_folders(draft, folders, Owner::user);
    std::string head = cat("# Written by berth migrate from the settings in ", printable(from.folder, 4096),
                           ". All keys: berth.conf(5).\n");
    return {head + draft.text(), draft.hooks(), draft.findings()};
}

}  // namespace berth::migrate
