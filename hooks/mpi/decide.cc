// Whether the node's MPI fits an image. By the rules of MPICH's ABI initiative: file names end with major, minor and
// patch; a minor version adds functions, a major one changes them.
#include <algorithm>
#include <optional>

#include "hooks/mpi/mpi.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

struct FileVersion {
    std::optional<uint64_t> major, minor;
    std::string text;  ///< "12.2.1"; empty: none
};

/// Of "libmpi.so.12.2.1".
FileVersion version_of(const std::string& file) {
    FileVersion out;
    size_t at = file.rfind(".so.");
    if (at == std::string::npos) return out;
    out.text = file.substr(at + 4);
    std::vector<std::string> parts = split(out.text, '.');
    uint64_t number = 0;
    if (parse_number(parts[0], UINT32_MAX, number)) out.major = number;
    if (parts.size() > 1 && parse_number(parts[1], UINT32_MAX, number)) out.minor = number;
    return out;
}

/// Some of its releases have the SONAME of MPICH.
bool is_open_mpi(const SharedObject& object) {
    return std::ranges::any_of(object.needed, [](const std::string& name) {
        return name.starts_with("libopen-rte.so") || name.starts_with("libopen-pal.so");
    });
}

constexpr std::pair<std::string_view, std::string_view> debian_names[] = {
    {"libmpi.so.", "libmpich.so."}, {"libmpicxx.so.", "libmpichcxx.so."}, {"libmpifort.so.", "libmpichfort.so."}};

/// Debian and what comes of it call MPICH's libraries otherwise.
std::vector<std::string> names_of(const std::string& name) {
    std::vector<std::string> out = {name};
    for (const auto& [usual, debian] : debian_names) {
        if (name.starts_with(usual)) out.push_back(cat(debian, name.substr(usual.size())));
        if (name.starts_with(debian)) out.push_back(cat(usual, name.substr(debian.size())));
    }
    return out;
}

constexpr std::string_view c_library[] = {"libc.so.6",    "libm.so.6",  "libpthread.so.0", "libdl.so.2",
                                          "librt.so.1",   "libutil.so.1", "libresolv.so.2"};
/// Of compilers: a newer one has all that an older one has.
constexpr std::string_view compilers[] = {"libstdc++.so.", "libgcc_s.so.",   "libgfortran.so.",
                                          "libgomp.so.",   "libquadmath.so.", "libatomic.so."};

bool is_of_c_library(const std::string& name) {
    return name.starts_with("ld-linux") || std::ranges::find(c_library, name) != std::end(c_library);
}

bool is_of_compiler(const std::string& name) {
    return std::ranges::any_of(compilers, [&](std::string_view start) { return name.starts_with(start); });
}

std::vector<std::string> missing_of(const std::set<std::string>& wanted, const std::set<std::string>& there) {
    std::vector<std::string> out;
    std::ranges::set_difference(wanted, there, std::back_inserter(out));
    return out;
}

std::string shown(const std::string& path) { return printable(path, 1024); }

class Decider {
  public:
    Decider(const MpiFacts& facts, plan::MpiCheck check) : facts_(facts), check_(check) {}

    MpiDecision run() {
        for (const HostLibrary& library : facts_.libraries) replace(library);
        if (out_.placed.empty()) return without();
        add_parts();
        for (const HostLibrary& library : facts_.dependencies) place_dependency(library);
        for (MpiDecision::Placed& one : out_.placed) add_aliases(one);
        for (const MpiDecision::Placed& one : out_.placed) check_needs(*one.library);
        if (why_.empty()) return std::move(out_);
        return {.outcome = MpiDecision::Outcome::unfit, .why = why_, .placed = {}};
    }

  private:
    /// The first reason is the one that is told.
    void refuse(const std::string& why) {
        if (why_.empty()) why_ = why;
    }

    void replace(const HostLibrary& library) {
        MpiDecision::Placed placed{.library = &library, .over = {}, .reason = ""};
        for (const std::string& name : names_of(library.name))
            for (const Library& old : facts_.image(name)) {
                // Both names may lead to one file.
                if (std::ranges::find(placed.over, old.file, &MpiDecision::Replaced::file) != placed.over.end())
                    continue;
                check_abi(library, old);
                placed.over.push_back({old.file, cat("the node's MPI, ", version_text(library),
                                                     ", in place of the image's, ", version_text(old))});
            }
        if (!placed.over.empty()) out_.placed.push_back(std::move(placed));
    }

    /// Those that no program of the image asks for, and another one of the node's does. The Fortran library of an image
    /// without Fortran needs what the image has not.
    void add_parts() {
        auto is_needed = [&](const HostLibrary& library) {
            return std::ranges::any_of(out_.placed, [&](const MpiDecision::Placed& one) {
                return std::ranges::any_of(one.library->object.needed, [&](const std::string& name) {
                    return name == library.name || name == library.object.soname;
                });
            });
        };
        // What is added may need another one.
        for (size_t i = 0; i < facts_.libraries.size(); ++i)
            for (const HostLibrary& library : facts_.libraries)
                if (!has_name(library.name) && is_needed(library))
                    out_.placed.push_back({.library = &library, .over = {}, .reason = "a part of the node's MPI"});
    }

    static std::string version_text(const Library& library) {
        std::string text = version_of(library.file).text;
        return text.empty() ? "of no version" : text;
    }

    void check_abi(const HostLibrary& library, const Library& old) {
        const std::string here_file = shown(library.file), there_file = shown(old.file);
        if (is_open_mpi(library.object) != is_open_mpi(old.object))
            return refuse(cat(here_file, " of the node has another ABI than ", there_file, " of the image: ",
                              is_open_mpi(old.object) ? "that" : "this", " is Open MPI's"));
        FileVersion here = version_of(library.file), there = version_of(old.file);
        if (here.major && there.major && here.major != there.major)
            return refuse(cat(here_file, " of the node has another major version than ", there_file, " of the image"));
        if (check_ == plan::MpiCheck::major) return;
        bool known = here.minor && there.minor;
        if (known && *here.minor >= *there.minor) return;
        std::vector<std::string> missing = missing_of(old.functions(), library.functions());
        if (missing.empty()) return;
        refuse(cat(here_file, " of the node ", known ? "is older than " : "does not fit ", there_file,
                   " of the image: it lacks ", missing.size(), " of its functions, such as ", printable(missing[0]),
                   " (mpi.check = \"major\" allows that)"));
    }

    void place_dependency(const HostLibrary& library) {
        if (is_of_c_library(library.name))
            return refuse(cat("mpi.dependencies of berth.conf has ", shown(library.file),
                              ", and a container's C library stays the image's"));
        MpiDecision::Placed placed{.library = &library, .over = {}, .reason = "the node's MPI needs it"};
        std::vector<Library> copies = facts_.image(library.name);
        if (is_of_compiler(library.name) && !copies.empty() &&
            missing_of(library.object.versions, copies[0].object.versions).empty())
            return;
        for (const Library& old : copies)
            placed.over.push_back({old.file, "the node's MPI needs it, in place of the image's"});
        out_.placed.push_back(std::move(placed));
    }

    /// What takes the place of Debian's library has MPICH's name, and a vendor's SONAME may be a third one.
    void add_aliases(MpiDecision::Placed& placed) const {
        for (const std::string& name : {placed.library->name, placed.library->object.soname})
            if (!name.empty() && !has_name(name) && facts_.image(name).empty()) placed.aliases.push_back(name);
    }

    /// Programs find one of the node's libraries by this name.
    bool has_name(const std::string& name) const {
        return std::ranges::any_of(out_.placed, [&](const MpiDecision::Placed& one) {
            if (std::ranges::find(one.aliases, name) != one.aliases.end()) return true;
            if (one.over.empty()) return one.library->name == name;
            std::vector<std::string> names = names_of(one.library->name);
            return std::ranges::find(names, name) != names.end() && !facts_.image(name).empty();
        });
    }

    void check_needs(const HostLibrary& library) {
        for (const std::string& name : library.object.needed) {
            if (has_name(name)) continue;
            std::vector<Library> copies = facts_.image(name);
            if (!copies.empty())
                check_versions(library, name, copies[0]);
            else if (!facts_.is_mounted(library, name))
                refuse(cat(shown(library.file), " of the node needs ", shown(name),
                           ", which neither the image nor mpi.dependencies of berth.conf has"));
        }
    }

    void check_versions(const HostLibrary& library, const std::string& name, const Library& there) {
        auto wanted = library.object.wanted.find(name);
        if (wanted == library.object.wanted.end()) return;
        std::vector<std::string> missing = missing_of(wanted->second, there.object.versions);
        if (!missing.empty())
            refuse(cat(shown(library.file), " of the node needs ", printable(missing.back()), ", which ",
                       shown(there.file), " of the image lacks"));
    }

    /// No library has a name that programs of this image ask for.
    MpiDecision without() const {
        using enum MpiDecision::Outcome;
        const std::string& name = facts_.libraries[0].name;
        for (const char* other : {"libmpi.so.40", "libmpi.so.20", "libmpi.so.12", "libmpich.so.12", "libmpi.so.1"})
            if (std::vector<Library> found = facts_.image(other); !found.empty())
                return {.outcome = unfit,
                        .why = cat("the image's MPI is ", shown(found[0].file),
                                   is_open_mpi(found[0].object) ? " of Open MPI" : "", ", and the node has ",
                                   shown(name)),
                        .placed = {}};
        return {.outcome = nothing_to_replace, .why = cat("the image has no ", shown(name)), .placed = {}};
    }

    const MpiFacts& facts_;
    plan::MpiCheck check_;
    MpiDecision out_;
    std::string why_;
};

}  // namespace

MpiDecision decide_mpi(const MpiFacts& facts, plan::MpiCheck check) { return Decider(facts, check).run(); }

bool is_mpi_function(std::string_view symbol) {
    for (std::string_view start : {"MPI_", "PMPI_", "mpi_", "pmpi_", "_ZN3MPI", "_ZNK3MPI"})
        if (symbol.starts_with(start)) return true;
    return false;
}

}  // namespace berth::hooks
