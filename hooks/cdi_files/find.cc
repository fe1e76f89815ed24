// Looking for CDI devices in the folders of a node.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "hooks/cdi_files/cdi.hh"
#include "hooks/cdi_native.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

constexpr size_t file_limit = 4 << 20;

/// A FIFO would have everyone wait who asks for a device.
std::string text_of(const std::string& path) {
    Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    if (!S_ISREG(sys::stat_of(file.get(), path).st_mode)) throw Error(cat("reading ", path, ": it is no regular file"));
    return sys::read_all(file.get(), file_limit, path);
}

bool is_spec(const std::string& name) { return name.ends_with(".json") || name.ends_with(".yaml"); }

/// All specifications, in the order in which they count, and what of them could not be read.
class Specs {
  public:
    explicit Specs(const std::vector<std::string>& folders) {
        for (size_t i = 0; i < folders.size(); ++i) {
            if (!std::filesystem::is_directory(folders[i])) continue;
            for (const std::string& name :
                 sys::list_directory(sys::open_file(folders[i], O_RDONLY | O_DIRECTORY).get(), folders[i]))
                if (is_spec(name)) read(folders[i] + "/" + name, i);
        }
    }

    /// Throws Error for one that no container can be given.
    const CdiEdits& device(const std::string& full_name, const CdiSpec*& spec) const {
        size_t equals = full_name.find('=');
        if (equals == std::string::npos || full_name.find('/') > equals)
            throw Error(cat("CDI device '", printable(full_name), "': it is no VENDOR/CLASS=NAME"));
        std::string kind = full_name.substr(0, equals), name = full_name.substr(equals + 1);
        const Spec *found = nullptr, *second = nullptr;
        for (const Spec& one : specs_) {
            bool has = one.spec.devices.contains(name) || one.spec.refused.contains(name);
            if (one.spec.kind != kind || !has) continue;
            second = found && found->folder == one.folder ? found : nullptr;
            found = &one;
        }
        auto fail = [&](const std::string& why) { throw Error(cat("CDI device ", printable(full_name), ": ", why)); };
        if (!found) fail(cat("no specification of this node has it", troubles_of(kind)));
        if (second) fail(cat("both ", second->file, " and ", found->file, " have it"));
        spec = &found->spec;
        auto refused = spec->refused.find(name);
        if (refused != spec->refused.end()) fail(refused->second);
        if (!spec->all_refused.empty()) fail(spec->all_refused);
        return spec->devices.at(name);
    }

  private:
    struct Spec {
        std::string file;
        CdiSpec spec;
        size_t folder;
    };

    /// A file that cannot be read, as far as can be known of which kind.
    struct Broken {
        std::string kind, why;
    };

    /// One that is broken is told only when a device is not found.
    void read(const std::string& path, size_t folder) {
        std::string text;
        try {
            text = text_of(path);
            specs_.push_back({path, parse_cdi(text, path.ends_with(".yaml"), path), folder});
        } catch (const Error& error) {
            broken_.push_back({kind_in(text), error.what()});
        }
    }

    /// Of the broken files those of this kind; when there is none, those that do not say their kind.
    std::string troubles_of(const std::string& kind) const {
        std::string own, unknown;
        for (const Broken& one : broken_) {
            if (one.kind == kind) own += "; " + one.why;
            if (one.kind.empty()) unknown += "; " + one.why;
        }
        return own.empty() ? unknown : own;
    }

    std::vector<Spec> specs_;
    std::vector<Broken> broken_;
};

}  // namespace

CdiEdits find_cdi_devices(const std::vector<std::string>& folders, const std::vector<std::string>& names) {
    Specs specs(folders);
    CdiEdits out;
    std::vector<const CdiSpec*> used;
    for (const std::string& name : names) {
        const CdiSpec* spec = nullptr;
        const CdiEdits& edits = specs.device(name, spec);
        if (std::find(used.begin(), used.end(), spec) == used.end()) {
            out.append(spec->common);
            used.push_back(spec);
        }
        out.append(edits);
    }
    return out;
}

}  // namespace berth::hooks
