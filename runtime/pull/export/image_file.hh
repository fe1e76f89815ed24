// Writes a merged tree as the one file that an image is outside of a store: a squashfs, or a SIF file.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/config/words.hh"
#include "runtime/plan/image_config.hh"
#include "runtime/pull/export/sif_form.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/format/file_config.hh"

namespace berth::pull {

struct ImportOptions {
    bool force = false;  ///< replace a file of that name
    bool plain = false;  ///< the image's tree as it is: no files for Enroot or Apptainer
    bool sif = false;    ///< a SIF file instead of a squashfs
    /// Nothing: of a squashfs, as the layers are; of a SIF file, gzip, which all of its readers know.
    std::optional<plan::LayerCodec> compression = {};
};

/// What a file is made of. `layers` are the files of `tree`, in the order of `infos`.
struct ImageParts {
    const squash::Tree& tree;
    const std::vector<Fd>& layers;
    const std::vector<squash::LayerInfo>& infos;
};

/// What Enroot looks for in an image: /etc/environment (NAME=VALUE lines) and /etc/rc (a shell script that becomes the
/// command). Pure.
std::vector<squash::AddedFile> enroot_files(const plan::ImageConfig& config);

/// Whether the tree has a file of that relative path. Pure.
bool has_file(const squash::Tree& tree, const std::string& path);

/// What a file has besides the tree: for Apptainer or for Enroot, or nothing with `options.plain`. Pure.
std::vector<squash::AddedFile> added_files(const SifOrigin& origin, const ImportOptions& options);

/// Whoever may read the SIF file may also execute it: it names its interpreter, as those of Apptainer. Throws SysError.
void let_execute(int fd, const std::string& what);

/// Writes the image, with the files `added`, to `fd`, an empty file that is open for reading and writing. A squashfs
/// carries `config` at its end, if there is one. Throws Error naming `what`.
void write_image_file(const ImageParts& parts, const SifOrigin& origin, const std::optional<squash::FileConfig>& config,
                      std::vector<squash::AddedFile> added, const ImportOptions& options, int fd,
                      const std::string& what, const squash::Copied& copied = {});

}  // namespace berth::pull
