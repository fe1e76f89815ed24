#include "runtime/pull/export/sif_form.hh"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/base/text.hh"
#include "runtime/request/expand.hh"

namespace berth::pull {

namespace {

using nlohmann::json;

constexpr uint32_t script = 0755;

std::string in_double_quotes(std::string_view text) {
    std::string out = "\"";
    for (char c : text) out += std::string_view("\"$`\\").find(c) == std::string_view::npos ? "" : "\\", out += c;
    return out + "\"";
}

/// Variables that the caller has win, but for PATH: as of every image that Apptainer has converted.
std::string variables_script(const std::vector<std::string>& env) {
    std::string out = "#!/bin/sh\n";
    for (const std::string& variable : env) {
        size_t equals = variable.find('=');
        std::string name = variable.substr(0, equals);
        if (equals == variable.npos || !plan::is_variable_name(name)) continue;
        std::string value = in_double_quotes(variable.substr(equals + 1));
        out += name == "PATH" ? cat("export PATH=", value, "\n")
                              : cat("export ", name, "=\"${", name, ":-", value, "}\"\n");
    }
    return out;
}

/// Words of the command line take the place of the image's own, as those of docker run.
std::string run_script(const plan::ImageConfig& process) {
    std::vector<std::string> otherwise = process.cmd;
    if (process.entrypoint.empty() && otherwise.empty()) otherwise = {"/bin/sh"};
    std::string out = "#!/bin/sh\n";
    if (!otherwise.empty()) out += cat("[ $# -gt 0 ] || set --", shell_words(otherwise), "\n");
    return out + cat("exec", shell_words(process.entrypoint), " \"$@\"\n");
}

/// A script of /.singularity.d/actions, for releases that read them in the image.
std::string action(std::string_view last) {
    return cat(
        "#!/bin/sh\nfor script in /.singularity.d/env/*.sh; do\n    [ ! -f \"$script\" ] || . \"$script\"\ndone\n",
        last);
}

std::string definition_of(const SifOrigin& origin) {
    return cat("bootstrap: ", origin.bootstrap, "\nfrom: ", printable(origin.from, 4096), "\n\n");
}

std::string time_text(int64_t time) {
    auto seconds = static_cast<time_t>(time);
    tm parts{};
    char text[64] = {};
    ::gmtime_r(&seconds, &parts);
    ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string text_of(const json& document) {
    return document.dump(1, '\t', false, json::error_handler_t::replace);
}

json labels_of(const SifOrigin& origin) {
    json out = json::object();
    for (const auto& [name, value] : origin.labels) out[name] = value;
    const std::pair<const char*, std::string> own[] = {
        {"org.label-schema.schema-version", "1.0"},
        {"org.label-schema.build-date", time_text(origin.time)},
        {"org.label-schema.build-arch", origin.process.architecture},
        {"org.label-schema.usage.singularity.deffile.bootstrap", origin.bootstrap},
        {"org.label-schema.usage.singularity.deffile.from", origin.from}};
    for (const auto& [name, value] : own)
        if (!value.empty()) out[name] = value;
    return out;
}

/// What `apptainer inspect --all` would print, for who has the file without its partition. Source: apptainer,
/// pkg/inspect/metadata.go.
std::string inspection_text(const SifOrigin& origin) {
    return text_of(
        {{"type", "container"},
         {"data",
          {{"attributes",
            {{"labels", labels_of(origin)},
             {"deffile", definition_of(origin)},
             {"runscript", run_script(origin.process)},
             {"environment",
              {{"/.singularity.d/env/10-docker2singularity.sh", variables_script(origin.process.env)}}}}}}}});
}

/// RFC 3339, to the second; 0 for what is none.
int64_t time_of(const std::string& text) {
    tm parts{};
    const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == nullptr) return 0;
    if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
    int64_t out = ::timegm(&parts);
    int hours = 0, minutes = 0;
    bool is_offset = (*rest == '+' || *rest == '-') && std::sscanf(rest + 1, "%2d:%2d", &hours, &minutes) == 2;
    if (is_offset) out -= (*rest == '-' ? -1 : 1) * (int64_t{hours} * 3600 + int64_t{minutes} * 60);
    return std::max<int64_t>(out, 0);
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += " " + shell_word(word);
    return out;
}

void read_config_text(SifOrigin& origin, std::string_view config) {
    json document = json::parse(config, nullptr, false);
    if (!document.is_object()) return;
    if (auto created = document.find("created"); created != document.end() && created->is_string())
        origin.time = time_of(created->get<std::string>());
    auto settings = document.find("config");
    if (settings == document.end() || !settings->is_object()) return;
    origin.settings = text_of(*settings);
    auto labels = settings->find("Labels");
    if (labels == settings->end() || !labels->is_object()) return;
    for (const auto& [name, value] : labels->items())
        if (value.is_string()) origin.labels.emplace_back(name, value.get<std::string>());
}

squash::SifForm sif_form(const SifOrigin& origin) {
    squash::SifForm out{
        .architecture = origin.process.architecture, .time = origin.time, .definition = definition_of(origin)};
    for (size_t i = 0; i < out.id.size() && i * 2 + 2 <= origin.identity.size(); ++i) {
        unsigned byte = 0;
        std::from_chars(&origin.identity[i * 2], &origin.identity[i * 2] + 2, byte, 16);
        out.id[i] = static_cast<char>(byte);
    }
    // RFC 9562: of a form of one's own, in the usual variant.
    out.id[6] = static_cast<char>((out.id[6] & 0x0f) | 0x80);
    out.id[8] = static_cast<char>((out.id[8] & 0x3f) | 0x80);
    out.texts.push_back({"inspect-metadata.json", inspection_text(origin)});
    if (!origin.settings.empty()) out.texts.push_back({"oci-config.json", origin.settings});
    return out;
}

std::vector<squash::AddedFile> sif_files(const SifOrigin& origin) {
    constexpr uint32_t link = S_IFLNK, folder = S_IFDIR | 0755;
    const std::string none = "#!/bin/sh\n";
    return {
        {".singularity.d/Singularity", definition_of(origin)},
        {".singularity.d/labels.json", text_of(labels_of(origin)) + "\n"},
        {".singularity.d/runscript", run_script(origin.process), script},
        {".singularity.d/startscript", none, script},
        {".singularity.d/test", none, script},
        {".singularity.d/libs", "", folder},
        {".singularity.d/env/10-docker2singularity.sh", variables_script(origin.process.env), script},
        {".singularity.d/env/90-environment.sh", none, script},
        {".singularity.d/actions/exec", action("exec \"$@\"\n"), script},
        {".singularity.d/actions/run", action("exec /.singularity.d/runscript \"$@\"\n"), script},
        {".singularity.d/actions/shell", action("exec /bin/sh \"$@\"\n"), script},
        {".singularity.d/actions/start", action("exec /.singularity.d/startscript \"$@\"\n"), script},
        {".singularity.d/actions/test", action("exec /.singularity.d/test \"$@\"\n"), script},
        {"environment", ".singularity.d/env/90-environment.sh", link},
        {"singularity", ".singularity.d/runscript", link},
        {".exec", ".singularity.d/actions/exec", link},
        {".run", ".singularity.d/actions/run", link},
        {".shell", ".singularity.d/actions/shell", link},
        {".test", ".singularity.d/actions/test", link},
    };
}

}  // namespace berth::pull
