// Edits as they are added to a Plan, in the order in which they will be made.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/edit.hh"

namespace berth::plan {

/// Of edits that every container has.
inline const Origin by_berth = Origin::of_site("system");

/// Adds to a list of somebody else's. What is returned may be changed until the next edit is added.
class EditList {
  public:
    explicit EditList(std::vector<Edit>& out) : out_(out) {}
    void add(Action action, Origin origin, std::string reason) {
        out_.push_back({std::move(action), std::move(origin), std::move(reason)});
    }

    Mount& bind(const std::string& source, const std::string& target, Origin origin, std::string reason) {
        Mount mount;
        mount.source = source;
        mount.target = target;
        add(std::move(mount), std::move(origin), std::move(reason));
        return std::get<Mount>(out_.back().action);
    }

    Mount& tmpfs(const std::string& target, uint32_t mode, Origin origin, std::string reason) {
        Mount mount;
        mount.kind = Mount::Kind::tmpfs;
        mount.target = target;
        mount.mode = mode;
        mount.create = Mount::Create::directory;
        add(std::move(mount), std::move(origin), std::move(reason));
        return std::get<Mount>(out_.back().action);
    }

    Mount& squashfs(const std::string& file, const std::string& target, Origin origin, std::string reason) {
        Mount& mount = bind(file, target, std::move(origin), std::move(reason));
        mount.kind = Mount::Kind::squashfs;
        mount.create = Mount::Create::directory;
        return mount;
    }

    /// A file system of the kernel's that shows what is the container's own.
    Mount& fresh(Mount::Kind kind, const char* type, const std::string& target, Origin origin,
                 std::string reason) {
        Mount& mount = tmpfs(target, 0755, std::move(origin), std::move(reason));
        mount.kind = kind;
        mount.source = type;
        mount.no_exec = true;
        return mount;
    }

  private:
    std::vector<Edit>& out_;
};

}  // namespace berth::plan
