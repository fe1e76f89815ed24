#include "runtime/enroot/names.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::enroot {

namespace {

constexpr std::string_view of_steps = "pyxis_", file_end = ".sqsh", hub = "registry-1.docker.io",
                           official = "library/";

/// "12_x" as the x of job 12.
bool parse_job_name(std::string_view text, Place& place) {
    size_t line = text.find('_');
    uint64_t job = 0;
    if (line == text.npos || line + 1 == text.size() || !parse_number(text.substr(0, line), UINT32_MAX, job) ||
        job == 0)
        return false;
    place = {Place::Kind::job, std::string(text.substr(line + 1)), static_cast<uint32_t>(job)};
    return true;
}

}  // namespace

std::string Place::shown() const {
    if (kind == Kind::own) return name;
    return kind == Kind::job ? cat(of_steps, job, "_", name) : cat(of_steps, name);
}

std::vector<Place> places_of(std::string_view name) {
    plan::check_container_name(name);
    std::string_view of_step = name;
    if (!name.starts_with(of_steps) || name.size() == of_steps.size()) return {{Place::Kind::own, std::string(name)}};
    of_step.remove_prefix(of_steps.size());
    std::vector<Place> out;
    if (Place place; parse_job_name(of_step, place)) out.push_back(place);
    out.push_back({Place::Kind::shared, std::string(of_step)});
    return out;
}

plan::Reference image_of(const std::string& uri) {
    for (const char* scheme : {"docker://", "dockerd://", "podman://"})
        if (uri.starts_with(scheme)) return plan::parse_reference(uri);
    throw Error(cat(printable(uri, 4096), ": an image is written docker://[USER@][REGISTRY#]NAME[:TAG], ",
                    "dockerd://NAME[:TAG] or podman://NAME[:TAG]"));
}

std::string base_name_of(const plan::Reference& image) {
    std::string out = image.selector;
    if (image.kind == plan::Reference::Kind::registry) {
        out = image.name;
        if (image.registry == hub && out.starts_with(official)) out = out.substr(official.size());
        out += cat("+", image.digest ? image.digest->text() : image.tag);
        std::replace(out.begin(), out.end(), '/', '+');
        return out;
    }
    for (char& letter : out)
        if (letter == '/' || letter == ':') letter = '+';
    return out;
}

std::string base_name_of_file(std::string_view path) {
    std::string_view name = path.substr(path.rfind('/') + 1);
    for (std::string_view end : {".gz", ".xz", ".zst", ".bz2", ".lz4"})
        if (name.ends_with(end) && name.size() > end.size()) {
            name.remove_suffix(end.size());
            break;
        }
    for (std::string_view end : {".sqsh", ".squashfs", ".sqfs", ".sif", ".tar", ".tgz"})
        if (name.ends_with(end) && name.size() > end.size()) {
            name.remove_suffix(end.size());
            break;
        }
    return std::string(name);
}

std::string container_of_file(std::string_view path) {
    if (path.ends_with(file_end)) path.remove_suffix(file_end.size());
    return std::string(path.substr(path.rfind('/') + 1));
}

std::string path_of_file(const std::string& path) {
    return path.starts_with('/') || path.starts_with('.') ? path : "./" + path;
}

}  // namespace berth::enroot
