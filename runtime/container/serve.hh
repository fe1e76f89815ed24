// The file server of a container's image: threads of this process.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/images/squashfs_mounts.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/mount/rootfs/binds.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// Does the edits that can be done before anything of the image is mounted, in the directory `upper` of the overlay;
/// the result is their positions. `modes` are those that the container shows of the image. `saved`: what the container
/// writes becomes an image at its end. Throws Error.
std::set<size_t> prepare_upper(const ContainerImage& image, int upper, const std::vector<plan::Edit>& edits,
                               const std::vector<mount::Source>& sources, plan::ImageModes modes, bool saved);

/// Mounts the image on the directory lower of `staging` and has it served as long as this process lives; the result is
/// the process that reads ahead, where something is known that is read. `hot` is what the container has of unpacked
/// files. Throws Error.
Pid serve_image(ContainerImage&& image, const plan::Plan& plan, const plan::Site& site, int staging,
                const HotImage& hot);

/// The processes that read data sets ahead, by the number of their file; to be called before serve_image(), by a
/// process of one thread.
std::vector<mount::IdleProcess> start_data_sweeps(const SquashfsMounts& mounts, const plan::Plan& plan,
                                                 const plan::Site& site);

/// Mounts what is in each of the files in a folder of `staging`, has it served as long as this process lives, and puts
/// it into those of `sources` that are of their edits. What is mounted has an overlay over it, but for layers, which
/// get one. `sweeps` are shown what is theirs. Changes the working directory. Throws Error.
void serve_squashfs(SquashfsMounts&& mounts, std::vector<mount::IdleProcess>& sweeps, const plan::Plan& plan,
                    const plan::Site& site, bool small_inode_numbers, int staging, std::vector<mount::Source>& sources);

}  // namespace berth
