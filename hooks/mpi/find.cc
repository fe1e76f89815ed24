// The libraries that berth.conf lists, as the node has them, and those of an image.
#include <fnmatch.h>

#include <algorithm>

#include "hooks/edits.hh"
#include "hooks/mpi/mpi.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

namespace {

constexpr size_t cache_limit = 16 << 20;

#if defined(__x86_64__)
constexpr uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t machine = EM_AARCH64;
#else
constexpr uint16_t machine = EM_NONE;
#endif

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::set<std::string> functions_of(const ReadPart& read) { return defined_symbols(read, is_mpi_function); }

/// "libmpi.so.12", and not "libmpi.so" or "libmpi.so.12.2.1".
bool is_soname(const std::string& name) {
    size_t at = name.rfind(".so.");
    uint64_t number = 0;
    return name.starts_with("lib") && at != std::string::npos &&
           parse_number(name.substr(at + 4), UINT32_MAX, number);
}

std::optional<HostLibrary> host_library(const Host& host, const std::string& listed, std::string& why) {
    auto file = host.resolved(listed);
    if (!file) {
        why = "is not on this node";
        return std::nullopt;
    }
    ReadPart read = [&host, path = *file](uint64_t offset, size_t size) { return host.read_part(path, offset, size); };
    auto object = read_shared_object(read);
    if (!object || object->machine != machine) {
        why = "is no shared library for this machine";
        return std::nullopt;
    }
    HostLibrary out;
    out.file = *file;
    out.functions = [read] { return functions_of(read); };
    // A vendor's library may have a SONAME of its own beside the name that MPICH's programs ask for.
    out.name = is_soname(name_of(listed)) ? name_of(listed) : object->soname;
    if (out.name.empty()) out.name = name_of(listed);
    out.object = std::move(*object);
    return out;
}

/// Folders in a variable with colons between them.
std::vector<std::string> folders_in(const std::vector<std::string>& variables, std::string_view name) {
    std::vector<std::string> out;
    const char* value = variable(variables, name);
    for (const std::string& folder : split(value ? value : "", ':'))
        if (folder.starts_with('/')) out.push_back(folder);
    return out;
}

}  // namespace

std::vector<std::string> expanded(const Host& host, const std::vector<std::string>& entries) {
    std::vector<std::string> out;
    for (const std::string& entry : entries) {
        const std::string pattern = name_of(entry);
        size_t before = out.size();
        if (pattern.find_first_of("*?[") != std::string::npos)
            for (const std::string& name : host.list(folder_of(entry)))
                if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0)
                    out.push_back(cat(folder_of(entry), "/", name));
        if (out.size() == before) out.push_back(entry);
    }
    return out;
}

ListedLibraries listed_libraries(const Host& host, const plan::MpiSettings& settings) {
    ListedLibraries out;
    auto gather = [&](const char* key, const std::vector<std::string>& entries, std::vector<HostLibrary>& to) {
        for (const std::string& path : expanded(host, entries)) {
            std::string why;
            if (auto library = host_library(host, path, why))
                to.push_back(std::move(*library));
            else
                out.faults.push_back(cat(key, " of berth.conf: ", printable(path, 1024), " ", why));
        }
    };
    gather("mpi.libraries", settings.libraries, out.libraries);
    gather("mpi.dependencies", settings.dependencies, out.dependencies);
    return out;
}

ImageLibraries::ImageLibraries(const Rootfs& image, const std::vector<std::string>& variables)
    : image_(image), first_(folders_in(variables, "LD_LIBRARY_PATH")) {
    try {
        std::string bytes = image.read("/etc/ld.so.cache", 0, cache_limit);
        if (!bytes.empty())
            for (const plan::CachedLibrary& one : parse_loader_cache(bytes, "ld.so.cache").libraries)
                if (one.flags == loader_flags()) cached_[one.name].push_back(one.path);
    } catch (const Error&) {
        // The image's loader cannot read it either.
    }
    usual_ = {library_place(image).folder, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"};
    for (const std::string& folder : folders_in(variables, "PATH"))
        for (const char* name : {"/lib", "/lib64"}) usual_.push_back(folder_of(folder) + name);
}

const std::vector<Library>& ImageLibraries::find(const std::string& name) {
    auto found = found_.find(name);
    if (found == found_.end()) found = found_.emplace(name, look_for(name)).first;
    return found->second;
}

std::vector<Library> ImageLibraries::look_for(const std::string& name) const {
    std::vector<std::string> paths;
    for (const std::string& folder : first_) paths.push_back(cat(folder, "/", name));
    if (auto cached = cached_.find(name); cached != cached_.end())
        paths.insert(paths.end(), cached->second.begin(), cached->second.end());
    for (const std::string& folder : usual_) paths.push_back(cat(folder, "/", name));
    std::vector<Library> out;
    for (const std::string& path : paths) {
        auto file = image_.resolved(path);
        if (!file || std::ranges::find(out, *file, &Library::file) != out.end()) continue;
        ReadPart read = [&image = image_, path = *file](uint64_t offset, size_t size) {
            return image.read(path, offset, size);
        };
        auto object = read_shared_object(read);
        if (object && object->machine == machine)
            out.push_back({*file, std::move(*object), [read] { return functions_of(read); }});
    }
    return out;
}

}  // namespace berth::hooks
