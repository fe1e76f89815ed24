// Where named containers live: a folder a container, with what it wrote, what it is made of, and the socket of the
// helper that runs it.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/lock.hh"
#include "runtime/config/site.hh"
#include "runtime/plan/container.hh"
#include "runtime/request/request.hh"

namespace berth {

/// The scope of containers that all commands and steps of a user share.
inline constexpr const char* global_scope = "global";

/// Layout: SCOPE_NAME/{state,upper,work,socket,running} and locks/SCOPE_NAME. The scope is `global` (that of `berth
/// run`), `jobN` of a job whose steps alone share its names, `enroot` of what the program enroot makes, or that of an
/// ENROOT_DATA_PATH (runtime/enroot/data_path). A container is there when its state is; a folder without one is what a
/// kill left, and is swept away before the name is used again. Locks are flocks, which end with their holders.
/// Everything belongs to the caller and is closed to others.
class ContainerFolder {
  public:
    /// Opens the folder, making it (mode 0700) when it is missing. Throws Error with the remedy when it is a symlink,
    /// somebody else's or open to others.
    static ContainerFolder open(const std::string& path, const std::string& scope = "global");

    const std::string& path() const { return path_; }
    std::string scope() const { return prefix_.substr(0, prefix_.size() - 1); }
    /// The folder of a container, as a path.
    std::string path_of(const std::string& name) const;
    /// What that folder is called among the others: SCOPE_NAME.
    std::string entry_of(const std::string& name) const { return prefix_ + name; }
    std::vector<std::string> names() const;
    /// The jobs that have containers of their own here.
    std::vector<uint32_t> jobs() const;
    /// All scopes that have containers here, sorted.
    std::vector<std::string> scopes() const;

    /// One at a time may create, start or remove a container. Waits for its turn; `waiting` is called once when that
    /// takes long, and `turn` again and again meanwhile: an exception from it ends the wait. Throws Error.
    Lock lock(const std::string& name, const std::function<void()>& waiting = {},
            const std::function<void()>& turn = {}) const;

    /// What is recorded of a container; nothing when there is none. Throws Error when it cannot be understood.
    std::optional<plan::ContainerRecord> find(const std::string& name) const;

    /// Makes the container, durably. `fill` may put files into its folder, a descriptor of which it gets, and say in
    /// `record` what they are: the container is there after that. Call with the lock. Throws Error.
    void create(const std::string& name, const plan::ContainerRecord& record,
                const std::function<void(int folder)>& fill = {}) const;

    /// Removes everything of the container and its lock file; nothing must run in it. Call with the lock. Throws Error,
    /// also while somebody has a hold().
    void remove(const std::string& name) const;
    /// The same but for its lock file, for one that is made anew under the lock.
    void discard(const std::string& name) const;

    /// Keeps the container from being removed, for those who read its files.
    Lock hold(const std::string& name) const;

    /// The directory of what the container wrote, for reading.
    Fd upper(const std::string& name) const;

    /// A socket that listens for those who want to join; replaces one whose helper has gone. Call with the lock.
    Fd listen(const std::string& name) const;
    /// A connection to the helper; empty when none answers.
    Fd connect(const std::string& name) const;

    /// Held by a helper for as long as it lives, also while it ends: the container's files cannot be mounted twice.
    /// Empty when `timeout_ms` are over.
    Lock running_lock(const std::string& name, int timeout_ms) const;

  private:
    ContainerFolder(std::string path, std::string prefix, Fd root)
        : path_(std::move(path)), prefix_(std::move(prefix)), root_(std::move(root)) {}
    Fd directory(const std::string& name) const;

    std::string path_;
    std::string prefix_;  ///< of the names of files: the scope and a line
    Fd root_;
};

/// The caller's containers at the site's place; when that is the built-in default and cannot be made here,
/// ~/.local/share/berth/containers.
ContainerFolder open_container_folder(const plan::Site& site, const plan::Caller& caller,
                                      const std::string& scope = "global");

/// Bytes on disk of what the container wrote, as far as the caller may read it.
uint64_t bytes_on_disk(int upper);

}  // namespace berth
