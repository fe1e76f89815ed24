// Looking for CDI devices in the folders of a node.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "hooks/cdi_files/cdi.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

constexpr size_t file_limit = 4 << 20;

struct Found {
    std::string file;
    const CdiSpec* spec = nullptr;
    size_t folder = 0;
    std::string second;  ///< another file of the same folder with this device
};

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

    const CdiEdits& device(const std::string& full_name, const CdiSpec*& spec) const {
        size_t equals = full_name.find('=');
        if (equals == std::string::npos || full_name.find('/') > equals)
            throw Error(cat("CDI device '", printable(full_name), "': it is no VENDOR/CLASS=NAME"));
        std::string kind = full_name.substr(0, equals), name = full_name.substr(equals + 1);
        Found found;
        for (const auto& [file, one, folder] : specs_) {
            if (one.kind != kind || !one.devices.contains(name)) continue;
            bool same = found.spec && found.folder == folder;
            found = {file, &one, folder, same ? found.file : ""};
        }
        if (!found.spec)
            throw Error(cat("CDI device ", printable(full_name), ": no specification of this node has it",
                            broken_.empty() ? "" : "; " + broken_));
        if (!found.second.empty())
            throw Error(
                cat("CDI device ", printable(full_name), ": both ", found.second, " and ", found.file, " have it"));
        spec = found.spec;
        return spec->devices.at(name);
    }

  private:
    struct Spec {
        std::string file;
        CdiSpec spec;
        size_t folder;
    };

    /// One that is broken is told only when a device is not found.
    void read(const std::string& path, size_t folder) {
        try {
            specs_.push_back(
                {path, parse_cdi(sys::read_file(path, file_limit), path.ends_with(".yaml"), path), folder});
        } catch (const Error& error) {
            if (broken_.empty()) broken_ = error.what();
        }
    }

    std::vector<Spec> specs_;
    std::string broken_;
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
