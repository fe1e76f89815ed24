// An image whose files a server gives to a container: threads of this process, or another program.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/mount/container_image.hh"
#include "runtime/mount/fuse/preload.hh"
#include "runtime/mount/fuse/program_server.hh"
#include "runtime/mount/rootfs/binds.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// While it exists a program is brought into memory; nobody may read that before.
class ServedImage {
  public:
    /// `program` is what will be executed first, as execvp() takes it; empty: nobody knows.
    ServedImage(ContainerImage&& image, const plan::Plan& plan, const std::string& program);
    ~ServedImage() { settle(); }
    ServedImage(const ServedImage&) = delete;
    ServedImage& operator=(const ServedImage&) = delete;

    /// Does the edits that can be done before anything of the image is mounted, in the directory `upper`; the result is
    /// their places. Throws Error.
    std::set<size_t> prepare_upper(int upper, const std::vector<plan::Edit>& edits,
                                   const std::vector<mount::Source>& sources, bool saved) const;

    /// Mounts the image on the directory lower of `staging` and has it served; by the other program, if there is one,
    /// which may not make the calls that `filter` refuses and is the result then. Throws Error.
    mount::ProgramServer show(const plan::Plan& plan, const plan::Site& site, const std::string& filter, int staging);

    /// Returns when the program is in memory and may be read.
    void settle();

  private:
    void begin_preload(int root);

    std::shared_ptr<const squash::Index> index_;
    std::vector<Fd> layers_;
    FlatImage flat_;       ///< for another program
    std::string program_;  ///< path in the image; empty: none is known
    uint32_t inode_ = 0;   ///< of it; 0: it is no file
    std::shared_ptr<mount::Preload> preload_;  ///< null without an inode
    bool preloading_ = false;
};

}  // namespace berth
