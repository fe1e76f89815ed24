#include "runtime/container/named/use.hh"

#include <sched.h>

#include <algorithm>

#include "hooks/devices.hh"
#include "runtime/base/error.hh"
#include "runtime/base/old_mounts.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/make.hh"
#include "runtime/container/named/pull_keeper.hh"
#include "runtime/container/plan_report.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/enroot_image.hh"
#include "runtime/images/flat.hh"
#include "runtime/images/shell.hh"
#include "runtime/request/options.hh"

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

/// As the user has written it: "--container-mounts" or "--mount".
std::string name_of(const plan::Option& option, bool of_srun) {
    if (of_srun || option.run.names == nullptr) return cat("--", option.name);
    std::string names = option.run.names;
    return names.substr(names.find("--"));
}

/// The options that a container keeps, and was started with other ones of.
std::string ignored_options(const ContainerStart& start) {
    plan::Request rest = start.request;
    // What contradicts these is refused.
    rest.remap_root = rest.writable = std::nullopt;
    rest.unshare = {};
    std::string out;
    for (const plan::Option& option : plan::option_table())
        if (option.record.key != nullptr && !option.record.texts(rest).empty())
            out += cat(out.empty() ? "" : ", ", name_of(option, start.of_srun));
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
    auto lacks = [&](bool wanted, int type) {
        const auto& own = joined.container.namespaces;
        return wanted &&
               std::none_of(own.begin(), own.end(), [&](const OwnNamespace& one) { return one.type == type; });
    };
    for (const plan::NamespaceKind& kind : plan::namespace_kinds)
        if (lacks(start.request.unshare.*kind.wanted, kind.type))
            refuse(cat("not in a separate ", kind.name, " namespace").c_str());
    if (std::string options = ignored_options(start); !options.empty())
        note(start, cat("ignoring ", options, ": it runs already, with what it was started with"));
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
        if (action == plan::NameAction::beside && !start_beside(out)) return std::nullopt;
        if (!join(out, environment)) return std::nullopt;
        return out;
    }

  private:
    /// A refusal leaves no lock file of a container that there is not.
    plan::NameAction decided(bool exists, bool runs) {
        try {
            plan::NameAction action = plan::action_for(start_.wanted, exists, runs);
            // Without the newer calls for mounts, a mount of one namespace cannot be used in another.
            if (action == plan::NameAction::beside && sys::old::needed()) action = plan::NameAction::join;
            if (action == plan::NameAction::create && start_.request.image.empty())
                throw Error(cat("container ", name_, ": there is none of that name; berth run --name ", name_,
                                " IMAGE makes one, berth ps lists those that are there"));
            return action;
        } catch (const Error&) {
            if (!exists) folder_.remove(name_);
            throw;
        }
    }

    /// False when the helper has ended meanwhile. A container that was never started is not kept.
    bool join(UsedContainer& out, const std::vector<std::string>& environment) {
        try {
            bool runs = out.action == plan::NameAction::join;
            auto joined = runs ? join_running(start_, out.connection.get(), environment)
                               : ask_to_join(out.connection.get(), environment, [&] { await_start(out); });
            if (joined && out.keeper) out.keeper->tell_started();
            if (joined) out.joined = std::move(*joined);
            return joined.has_value();
        } catch (...) {
            if (out.action == plan::NameAction::create) forget(out);
            throw;
        }
    }

    void await_start(const UsedContainer& out) {
        if (out.arrivals)
            await_early_start(out.connection.get(),
                              attended_wait(start_.watch, out.arrivals, start_.site.limits.stall_time));
    }

    void forget(UsedContainer& out) {
        out.keeper.reset();
        out.connection.reset();
        if (lock_after_last_run(folder_, name_)) folder_.remove(name_);
        if (!out.record.digest.empty())
            open_store(start_.site, start_.caller).unpin(Digest(out.record.digest), state_path());
    }

    void lap(const char* phase) const {
        if (start_.lap) start_.lap(phase);
    }

    OpenedImage open_again(const UsedContainer& out) {
        OpenedImage opened = open_image_again(out.record, start_.caller, start_.site, start_.watch);
        if (!start_.request.image.empty() && canonical(start_.request.image) != out.record.image)
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
        OpenedImage opened = open_again(out);
        plan::Plan plan = plan_for(out, opened);
        opened.image.root = container_root(other->container);
        out.connection = start_helper_beside(folder_, name_, plan, std::move(opened.image), start_.site,
                                             std::move(out.connection), start_.forked);
        return true;
    }

    void create(UsedContainer& out, Lock& lock) {
        OpenedImage opened = open_image(start_.request.image, start_.caller, start_.site, start_.watch, start_.tag);
        lap("image");
        out.record = record_of(start_.request, opened, start_.caller, start_.site);
        folder_.create(name_, out.record);
        launch(out, std::move(opened), lock);
    }

    void launch(UsedContainer& out, OpenedImage opened, Lock& lock) {
        // Each time: a pin may have been lost with the store, and the lease lasts only as long as the container runs.
        if (!out.record.digest.empty())
            open_store(start_.site, start_.caller).pin(Digest(out.record.digest), state_path());
        plan::Plan plan = plan_for(out, opened);
        use_flat(opened, out.record.image, plan.identity, start_.caller, start_.site, start_.watch);
        if (opened.early) {
            out.arrivals = opened.image.coming.arrivals;
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

    std::string canonical(const std::string& image) const {
        return plan::with_absolute_path(plan::parse_reference(image), start_.caller.cwd).text();
    }
    std::string state_path() const { return folder_.path_of(name_) + "/state"; }

    const ContainerFolder& folder_;
    const ContainerStart& start_;
    const std::string& name_;
    const std::vector<std::string>* environment_ = nullptr;  ///< of the task to be
};

}  // namespace

std::optional<JoinedContainer> join_running(const ContainerStart& start, int connection,
                                            const std::vector<std::string>& environment) {
    auto joined = ask_to_join(connection, environment);
    if (joined) check_agrees(start, *joined);
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
