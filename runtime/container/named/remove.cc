#include "runtime/container/named/remove.hh"

#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/host/facts.hh"
#include "runtime/request/names.hh"

namespace berth {

namespace {

/// The digest of a container whose record cannot be read stays unknown: its pin goes with gc.
std::string digest_of(const ContainerFolder& folder, const std::string& name) {
    try {
        auto record = folder.find(name);
        // With its lock file, and what a kill may have left.
        if (!record) folder.remove(name);
        if (!record)
            throw Error(
                cat("removing container ", name, ": there is none of that name; berth ps lists those that are there"));
        return record->digest;
    } catch (const SysError&) {
        throw;
    } catch (const Error& error) {
        if (std::string_view(error.what()).starts_with("removing")) throw;
        return {};
    }
}

}  // namespace

void remove_container(const ContainerFolder& folder, const std::string& name, bool force, const plan::Site& site,
                      const plan::Caller& caller) {
    plan::check_container_name(name);
    Lock lock = folder.lock(name);
    std::string digest = digest_of(folder, name);
    if (Fd connection = folder.connect(name)) {
        if (!force)
            throw Error(cat("removing container ", name, ": it runs; wait for its end, or use --force to end it"));
        ask_to_stop(std::move(connection));
    }
    // Of what was left behind, the file beside the lock is the only trace.
    if (!lock_after_last_run(folder, name))
        throw Error(cat("removing container ", name, ": it does not end; try again"));
    folder.remove(name);
    if (!digest.empty()) open_store(site, caller).unpin(Digest(digest), folder.path_of(name) + "/state");
}

}  // namespace berth
