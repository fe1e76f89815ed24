#include "runtime/apptainer/inspect.hh"

#include <nlohmann/json.hpp>

#include <map>

#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

using nlohmann::ordered_json;

constexpr const char* own_folder = "/.singularity.d";
constexpr const char* apps_folder = "/scif/apps";

/// What an image, or an app in it, says of itself.
struct Attributes {
    std::map<std::string, std::string> environment, labels;  ///< by the file's path; by name
    std::string runscript, test, helpfile, deffile, startscript;
};

std::string without_last_line_ends(std::string text) {
    text.resize(text.find_last_not_of('\n') + 1);
    return text;
}

std::map<std::string, std::string> labels_in(const std::string& text) {
    std::map<std::string, std::string> out;
    auto read = nlohmann::json::parse(text, nullptr, false);
    if (!read.is_object()) return out;
    for (const auto& [name, value] : read.items())
        if (value.is_string()) out[name] = value.get<std::string>();
    return out;
}

/// The scripts of the image's own; those that Apptainer puts into every image are not shown there.
bool is_shown(const std::string& name, bool of_app) {
    if (name.starts_with('9') && name.ends_with("-environment.sh")) return true;
    return !of_app && name.starts_with("10-docker") && name.ends_with(".sh");
}

Attributes attributes_in(const std::string& folder, const Inspection& asked, const ImageReader& image, bool of_app) {
    auto text = [&](bool wanted, const char* name) {
        return wanted ? without_last_line_ends(image.text(cat(folder, "/", name))) : std::string();
    };
    Attributes out;
    if (asked.labels) out.labels = labels_in(text(true, "labels.json"));
    out.deffile = text(asked.deffile, "Singularity");
    out.runscript = text(asked.runscript, "runscript");
    out.startscript = text(asked.startscript, "startscript");
    out.test = text(asked.test, "test");
    out.helpfile = text(asked.helpfile, "runscript.help");
    if (!asked.environment) return out;
    for (const std::string& name : image.names(folder + "/env"))
        if (is_shown(name, of_app)) out.environment[cat(folder, "/env/", name)] = text(true, ("env/" + name).c_str());
    return out;
}

ordered_json json_of(const Attributes& from) {
    ordered_json out = ordered_json::object();
    if (!from.environment.empty()) out["environment"] = from.environment;
    if (!from.labels.empty()) out["labels"] = from.labels;
    std::pair<const char*, const std::string*> texts[] = {{"runscript", &from.runscript},
                                                          {"test", &from.test},
                                                          {"helpfile", &from.helpfile},
                                                          {"deffile", &from.deffile},
                                                          {"startscript", &from.startscript}};
    for (const auto& [name, text] : texts)
        if (!text->empty()) out[name] = *text;
    return out;
}

std::string json_text(const Attributes& image, const std::map<std::string, Attributes>& apps) {
    ordered_json attributes = ordered_json::object();
    for (const auto& [name, app] : apps) attributes["apps"][name] = json_of(app);
    attributes.update(json_of(image));
    ordered_json out = {{"data", {{"attributes", attributes}}}, {"type", "container"}};
    return out.dump(1, '\t', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string text_of(const Attributes& from) {
    std::string out;
    for (const std::string* text : {&from.deffile, &from.runscript, &from.startscript, &from.test, &from.helpfile})
        if (!text->empty()) out += *text + "\n";
    for (const auto& [path, text] : from.environment) out += cat("=== ", path, " ===\n", text, "\n\n");
    for (const auto& [name, text] : from.labels) out += cat(name, ": ", text, "\n");
    return out;
}

std::string folder_of(const std::string& app) { return cat(apps_folder, "/", app, "/scif"); }

/// Of the apps that are to be shown.
std::map<std::string, Attributes> apps_in(const Inspection& asked, const ImageReader& image) {
    std::map<std::string, Attributes> out;
    for (const std::string& name : image.names(apps_folder)) {
        bool wanted = asked.apps || asked.all || name == asked.app;
        if (!wanted || image.names(folder_of(name)).empty()) continue;
        bool whole = asked.all || name == asked.app;
        out[name] = whole ? attributes_in(folder_of(name), asked, image, true) : Attributes();
    }
    return out;
}

}  // namespace

std::string inspected(Inspection asked, const ImageReader& image) {
    if (asked.all) {
        asked.labels = asked.deffile = asked.runscript = asked.startscript = asked.test = asked.environment =
            asked.helpfile = asked.json = true;
        asked.app.clear();
    }
    if (!(asked.deffile || asked.runscript || asked.startscript || asked.test || asked.environment ||
          asked.helpfile || asked.apps))
        asked.labels = true;
    std::map<std::string, Attributes> apps = apps_in(asked, image);
    Attributes own = asked.app.empty() ? attributes_in(own_folder, asked, image, false) : Attributes();
    if (asked.json) return json_text(own, apps);
    std::string out;
    if (asked.apps)
        for (const auto& [name, app] : apps) out += name + "\n";
    out += text_of(own);
    if (auto app = apps.find(asked.app); app != apps.end()) out += text_of(app->second);
    return out;
}

}  // namespace berth::apptainer
