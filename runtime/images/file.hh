// Images that are used where they lie, without the store: a squashfs file, the squashfs in a SIF file, a directory with
// a root file system.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/mount/container_image.hh"
#include "runtime/squash/read/image_tree.hh"
#include "runtime/store/store.hh"

namespace berth {

/// The sums that hold for what is read of a file; null: it need not be what it was.
using FileSums = std::shared_ptr<const squash::PartSums>;

/// Opens what is at the absolute `path`. Throws Error, with the right spelling for what is another kind of image (an
/// archive, an OCI layout). `judge` gets the descriptor before anything is read, and throws to refuse it. `store` keeps
/// the index of a file for its next start; null: none is kept.
ContainerImage open_image_file(const std::string& path, const std::function<FileSums(int file)>& judge = {},
                               const store::Store* store = nullptr);

/// The tree of a file that open_image_file() takes for a squashfs or SIF file. Throws Error naming `path`.
squash::ImageTree tree_of_image_file(int fd, const std::string& path, const squash::PartSums* sums = nullptr);

/// The config of an image that has none in berth's form, from the files that Enroot leaves in a root file system:
/// NAME=VALUE lines of /etc/environment, the working directory from the one line of /etc/rc that enters it, and
/// enroot_script as the entrypoint where /etc/rc passes its arguments on. Data only: nothing is run. Pure.
plan::ImageConfig config_of_enroot(const std::string& environment, const std::string& rc);

/// How Enroot starts the command of a container (bin/enroot-switchroot.c of 4.1.2): /etc/rc has the image's entrypoint
/// and, for a start without arguments, its command.
extern const std::vector<std::string> enroot_script;

}  // namespace berth
