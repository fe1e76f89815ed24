#include "runtime/container/named/use.hh"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hooks/devices.hh"
#include "runtime/base/error.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/created.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/container/named/make.hh"
#include "runtime/container/named/pull_keeper.hh"
#include "runtime/container/plan_report.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/enroot_image.hh"
#include "runtime/images/shell.hh"
#include "runtime/plan/mount_edit.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"

namespace berth {

namespace {

// As often a helper may end just when it is asked; each time is another one.
constexpr int attempts = 20;
void note(const ContainerStart& start, const std::string& text) {
    if (start.watch.progress) start.watch.progress(cat("container ", start.wanted.name, ": ", text));
}

/// What the request leaves open is as it was at the creation.
plan::Request completed(const ContainerStart& start, const plan::ContainerRecord& record) {
    plan::Request out = start.request;
    // What one command wants for itself is no property of the container.
    out.env.clear();
    out.variables.clear();
    if (!start.inherit) {
        out.workdir.reset();
        return out;
    }
    plan::take_recorded_options(out, record, start.again);
    return out;
}

/// As the user has written it: "--container-mounts" or "--mount"; `yes` is false for the opposite of a flag.
std::string name_of(const plan::Option& option, bool of_srun, bool yes) {
    if (of_srun || option.run.names == nullptr) return cat("--", yes ? option.name : option.opposite);
    std::string names = yes ? option.run.names : option.run.opposite_names;
    return names.substr(names.find("--"));
}

bool has_all_mounts(const ContainerStart& start, const JoinedContainer& joined) {
    const std::vector<std::string>& there = joined.mounts;
    return std::ranges::all_of(start.request.mounts, [&](const plan::MountRequest& mount) {
        std::string wanted = plan::mount_key(plan::with_absolute_source(mount, start.caller));
        return std::ranges::find(there, wanted) != there.end();
    });
}

/// The options that a container keeps, and was started with other ones of.
std::string ignored_options(const ContainerStart& start, const JoinedContainer& joined) {
    plan::Request rest = start.request;
    // What contradicts these is refused.
    rest.remap_root = rest.writable = rest.nested = std::nullopt;
    rest.unshare = {};
    // An older helper does not say whether it has the home.
    if (rest.mount_home == joined.mount_home.value_or(false)) rest.mount_home = std::nullopt;
    if (has_all_mounts(start, joined)) rest.mount_texts.clear();
    std::string out;
    for (const plan::Option& option : plan::option_table())
        if (option.record.key != nullptr && !option.record.texts(rest).empty())
            out += cat(out.empty() ? "" : ", ",
                       name_of(option, start.of_srun, option.choose == nullptr || rest.mount_home.value_or(true)));
    return out;
}

/// A container that runs is as it is.
void check_agrees(const ContainerStart& start, const JoinedContainer& joined) {
    auto contradicts = [&](const std::optional<bool>& wanted, bool has) { return wanted && *wanted != has; };
    auto refuse = [&](const char* what) {
        throw Error(cat("joining container ", start.wanted.name, ": it runs already and is ", what,
                        "; leave the option out, or wait for its end"));
    };
    if (contradicts(start.request.remap_root, joined.remap_root))
        refuse(joined.remap_root ? "started with --root" : "not started with --root");
    if (contradicts(start.request.writable, joined.writable)) refuse(joined.writable ? "writable" : "read-only");
    if (contradicts(start.request.nested, joined.nested))
        refuse(joined.nested ? "started with --nested" : "not started with --nested");
    auto lacks = [&](bool wanted, int type) {
        const auto& own = joined.container.namespaces;
        return wanted &&
               std::none_of(own.begin(), own.end(), [&](const OwnNamespace& one) { return one.type == type; });
    };
    for (const plan::NamespaceKind& kind : plan::namespace_kinds)
        if (lacks(start.request.unshare.*kind.wanted, kind.type))
            refuse(cat("not in a separate ", kind.name, " namespace").c_str());
    if (std::string options = ignored_options(start, joined); !options.empty())
        note(start, cat("ignoring ", options, ": it runs already, with what it was started with"));
}

plan::TaskRequest task_of(const ContainerStart& start, const std::vector<std::string>& environment) {
    return {0, environment, start.compares_devices};
}

/// True where a device file is missing, too: then nothing of it is known.
bool may_open(const std::string& path) {
    return ::access(path.c_str(), R_OK) == 0 || (errno != EPERM && errno != EACCES);
}

/// What the container has other than this step was granted. A helper of an earlier release does not tell.
plan::GrantDifference difference_to(const ContainerStart& start, const JoinedContainer& joined,
                                    const std::vector<std::string>& environment) {
    if (!joined.found) return {};
    plan::DeviceGrant own = granted_devices(joined.found->image, start.site, environment);
    return plan::difference({joined.found->files, joined.devices}, own, may_open);
}

[[noreturn]] void refuse_devices(const ContainerStart& start, const plan::GrantDifference& difference,
                                 const std::string& advice) {
    throw Error(cat("joining container ", start.wanted.name, ": it runs already, with other devices: ",
                    plan::words_of(difference), "; ", advice));
}

class Use {
  public:
    Use(const ContainerFolder& folder, const ContainerStart& start)
        : folder_(folder), start_(start), name_(start.wanted.name) {}

    std::optional<UsedContainer> attempt(const std::vector<std::string>& environment) {
        environment_ = &environment;
        Lock lock = folder_.lock(
            name_, [&] { note(start_, "waiting for another process that is starting it"); }, start_.watch.ready);
        auto record = folder_.find(name_);
        Fd connection = folder_.connect(name_);
        plan::NameAction action = decided(record.has_value(), bool(connection));
        if (connection) lock.unlock();
        UsedContainer out{.connection = std::move(connection),
                          .action = action,
                          .record = record.value_or(plan::ContainerRecord())};
        if (action == plan::NameAction::start) restart(out, lock);
        if (action == plan::NameAction::create) create(out, lock);
        bool goes_on = action == plan::NameAction::join     ? look_at_running(out)
                       : action == plan::NameAction::beside ? start_beside(out)
                                                            : true;
        if (!goes_on || !join(out, environment)) return std::nullopt;
        return out;
    }

  private:
    /// A refusal leaves no lock file of a container that there is not.
    plan::NameAction decided(bool exists, bool runs) {
        try {
            plan::NameAction action = plan::action_for(start_.wanted, exists, runs);
            // Without the newer calls for mounts, a mount of one namespace cannot be used in another.
            if (action == plan::NameAction::beside && sys::old::needed()) action = plan::NameAction::join;
            if (action == plan::NameAction::start && is_made_anew_elsewhere()) action = plan::NameAction::create;
            if (action == plan::NameAction::create) choose_image();
            return action;
        } catch (const Error&) {
            if (!exists) folder_.remove(name_);
            throw;
        }
    }

    /// With Enroot, whose containers lie in the home, the one that is here would have been replaced, and would be used
    /// whatever image is given. The copy of the file that it is made of may be another one by now.
    bool is_made_anew_elsewhere() {
        if (!start_.of_srun) return false;
        std::string record = created_record(start_.caller, folder_, name_);
        renewed_ = is_made_anew(folder_, name_, record);
        return renewed_;
    }

    /// Of a container that is to be made.
    void choose_image() {
        request_ = start_.request;
        std::string other = name_of_enroot();
        if (request_.image && !renewed_) {
            if (!other.empty())
                note(start_, cat("making one of that name; the container that enroot calls so is ", other));
            return;
        }
        if (start_.of_srun && (other.empty() || renewed_)) {
            made_of_ = created_record(start_.caller, folder_, name_);
            if (!made_of_.empty()) {
                request_.image = image_of_created(made_of_, name_);
                note(start_, cat(renewed_ ? "making it here again of " : "making it here of ",
                                 printable(request_.image->written, 1024), ", as enroot create did elsewhere"));
                return;
            }
        }
        throw Error(cat("container ", name_, ": there is none of that name",
                        !other.empty()     ? cat("; the container that enroot calls so is ", other, ": write that")
                        : !start_.of_srun ? cat("; berth run --name ", name_,
                                                " IMAGE makes one, berth ps lists those that are there")
                                          : cat(" on this node", start_.job.node.empty() ? "" : ", ",
                                                start_.job.node, ", and each node has its own; give --container-image "
                                                "(an image or a FILE.sqsh), of which it is made here, or -w with the "
                                                "node that has it: srun -w NODE berth ps lists a node's")));
    }

    /// X of pyxis_X, where that is a container.
    std::string name_of_enroot() const {
        constexpr std::string_view of_enroot = "pyxis_";
        if (!name_.starts_with(of_enroot) || name_.size() == of_enroot.size()) return {};
        std::string other = name_.substr(of_enroot.size());
        try {
            return folder_.find(other) ? other : "";
        } catch (const Error&) {
            return {};
        }
    }

    /// False when the helper has ended meanwhile. A container that was never started is not kept.
    bool join(UsedContainer& out, const std::vector<std::string>& environment) {
        try {
            if (out.action == plan::NameAction::join) return true;
            auto joined = ask_to_join(out.connection.get(), environment, [&] { await_start(out); });
            if (joined && out.keeper) out.keeper->tell_started();
            if (joined) out.joined = std::move(*joined);
            return joined.has_value();
        } catch (...) {
            if (out.action == plan::NameAction::create) forget(out);
            throw;
        }
    }

    /// Joins the container, or begins another one beside it where this step's devices are not those that it has. False
    /// when it has ended meanwhile.
    bool look_at_running(UsedContainer& out) {
        auto joined = ask_to_join(out.connection.get(), task_of(start_, *environment_));
        if (!joined) return false;
        if (auto other = difference_to(start_, *joined, *environment_); !other.empty()) {
            check_may_be_beside(other);
            // Who names no image may count on the mounts that are there.
            if (!start_.request.image)
                note(start_, cat("it runs already, with other devices: ", plan::words_of(other),
                                 "; this step has mounts and a /tmp of its own, as with :no_exec"));
            out.action = plan::NameAction::beside;
            start_beside(out, *joined);
            return true;
        }
        check_agrees(start_, *joined);
        out.joined = std::move(*joined);
        return true;
    }

    void check_may_be_beside(const plan::GrantDifference& difference) const {
        if (sys::old::needed())
            refuse_devices(start_, difference,
                           "give this step a name of its own: :no_exec joins, too, on this kernel (before Linux 5.12)");
        if (start_.wanted.mode == plan::NameMode::exec)
            refuse_devices(start_, difference,
                           cat("--container-name=", name_, ":no_exec gives this step its own, over the same files"));
    }

    void await_start(const UsedContainer& out) {
        if (out.map)
            await_early_start(out.connection.get(),
                              attended_wait(start_.watch, out.map, start_.site.limits.stall_time));
    }

    void forget(UsedContainer& out) {
        out.keeper.reset();
        out.connection.reset();
        if (lock_after_last_run(folder_, name_)) folder_.remove(name_);
        if (!out.record.digest.empty())
            open_store(start_.site, start_.caller).unpin(Digest(out.record.digest), state_path());
    }

    /// What is here, in place of which another one comes.
    void discard(const UsedContainer& out) {
        if (!lock_after_last_run(folder_, name_))
            throw Error(cat("making container ", name_, " again: its last run has not ended yet; try again"));
        folder_.discard(name_);
        if (!out.record.digest.empty())
            open_store(start_.site, start_.caller).unpin(Digest(out.record.digest), state_path());
    }

    void lap(const char* phase) const {
        if (start_.lap) start_.lap(phase);
    }

    OpenedImage open_again(const UsedContainer& out) {
        OpenedImage opened = open_image_again(out.record, start_.caller, start_.site, start_.watch);
        if (start_.request.image && canonical(*start_.request.image) != out.record.image)
            note(start_, cat("it is made of the image ", printable(out.record.image, 1024),
                             "; the one given is not looked at"));
        lap("image");
        return opened;
    }

    void restart(UsedContainer& out, Lock& lock) { launch(out, open_again(out), lock); }

    /// False when the one that ran has ended meanwhile.
    bool start_beside(UsedContainer& out) {
        auto other = ask_to_join(out.connection.get(), *environment_);
        if (!other) return false;
        start_beside(out, *other);
        return true;
    }

    void start_beside(UsedContainer& out, const JoinedContainer& other) {
        OpenedImage opened = open_again(out);
        plan::Plan plan = plan_for(out, opened);
        opened.image.root = container_root(other.container);
        out.connection = start_helper_beside(folder_, name_, plan, std::move(opened.image), start_.site,
                                             std::move(out.connection), start_.forked);
    }

    void create(UsedContainer& out, Lock& lock) {
        OpenedImage opened = open_image(*request_.image, start_.caller, start_.site, start_.watch, start_.tag);
        lap("image");
        if (renewed_) discard(out);
        out.record = record_of(request_, opened, start_.caller, start_.site);
        folder_.create(name_, out.record, [&](int directory) {
            note_data_path(directory, start_.data_path);
            note_made_of(directory, made_of_);
        });
        launch(out, std::move(opened), lock);
    }

    void launch(UsedContainer& out, OpenedImage opened, Lock& lock) {
        // Each time: a pin may have been lost with the store, and the lease lasts only as long as the container runs.
        if (!out.record.digest.empty())
            open_store(start_.site, start_.caller).pin(Digest(out.record.digest), state_path());
        plan::Plan plan = plan_for(out, opened);
        if (opened.early) {
            out.map = opened.image.coming.map;
            out.keeper.emplace();
        }
        HelperImage image{std::move(opened.image), std::move(opened.early), out.keeper ? &*out.keeper : nullptr};
        out.connection = start_helper(folder_, name_, plan, std::move(image), start_.site, lock, start_.forked);
    }

    plan::Plan plan_for(UsedContainer& out, const OpenedImage& opened) {
        std::vector<plan::ContainerEdits> devices =
            device_edits(opened.image, start_.site, *environment_, start_.watch.progress);
        add_image_fstab(devices, opened.image, *environment_, start_.watch.progress);
        plan::Request request = completed(start_, out.record);
        plan::Caller caller = start_.caller;
        take_shell(caller, opened.image);
        plan::Plan plan = plan_here(request, caller, start_.job, start_.site,
                                    config_at_start(opened.image, *environment_), devices);
        if (!out.record.digest.empty())
            plan.environment.set.push_back(cat("BERTH_CONTAINER_DIGEST=", out.record.digest));
        out.command = plan.command;
        if (start_.watch.progress && wants_plan(*environment_))
            report_plan(plan, out.record.digest, start_.watch.progress);
        lap("plan");
        return plan;
    }

    std::string canonical(const plan::Reference& image) const {
        return plan::with_absolute_path(image, start_.caller.cwd, start_.caller.home).text();
    }
    std::string state_path() const { return folder_.path_of(name_) + "/state"; }

    const ContainerFolder& folder_;
    const ContainerStart& start_;
    plan::Request request_ = {};  ///< of the creation
    bool renewed_ = false;        ///< the creation replaces one that is here
    std::string made_of_;         ///< the record in the home that it is of; else empty
    const std::string& name_;
    const std::vector<std::string>* environment_ = nullptr;  ///< of the task to be
};

}  // namespace

std::optional<JoinedContainer> join_running(const ContainerStart& start, int connection,
                                            const std::vector<std::string>& environment) {
    auto joined = ask_to_join(connection, task_of(start, environment));
    if (!joined) return joined;
    plan::GrantDifference other = difference_to(start, *joined, environment);
    if (!other.foreign.empty())
        refuse_devices(start, other,
                       "ask for them as well, or use berth exec; :no_exec is for containers with a name");
    if (!other.missing.empty()) note(start, plan::words_of(other));
    check_agrees(start, *joined);
    return joined;
}

UsedContainer use_container(const ContainerFolder& folder, const ContainerStart& start,
                            const std::vector<std::string>& environment) {
    for (int i = 0; i < attempts; ++i)
        if (auto used = Use(folder, start).attempt(environment)) return std::move(*used);
    throw Error(cat("joining container ", start.wanted.name,
                    ": its helper ends each time it is asked, or is of a release that does not answer this one; see "
                    "berth ps, or berth rm --force"));
}

}  // namespace berth
