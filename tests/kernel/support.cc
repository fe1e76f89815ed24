#include "tests/kernel/support.hh"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"

namespace berth::kernel_test {

namespace {

constexpr uid_t ordinary = 2001;

// Ends a report: the end of the pipe would not do, because tasks that outlive their server hold it open.
constexpr char end_mark = '\4';

/// A child's last words: kind, exit code and text.
void report(int pipe, char kind, int code, const std::string& text) {
    sys::write_all(pipe, cat(kind, static_cast<char>(code), text, end_mark), "the report");
}

void run_body(int pipe, const std::function<std::string()>& body) {
    try {
        report(pipe, 'T', 0, body());
    } catch (const Error& error) {
        report(pipe, 'E', error.exit_code(), error.what());
    } catch (const std::exception& error) {
        report(pipe, 'E', 1, cat("unexpected: ", error.what()));
    }
}

Outcome read_outcome(int pipe, std::chrono::seconds limit) {
    auto end = std::chrono::steady_clock::now() + limit * fixtures::slowness();
    std::string all;
    char buffer[4096];
    Outcome outcome;
    for (;;) {
        auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        pollfd wait{pipe, POLLIN, 0};
        if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) {
            outcome.hung = true;
            return outcome;
        }
        ssize_t got = ::read(pipe, buffer, sizeof buffer);
        if (got <= 0) break;
        all.append(buffer, static_cast<size_t>(got));
        if (all.size() > 2 && all.back() == end_mark) break;
    }
    if (!all.empty()) all.pop_back();
    if (all.size() < 2) {
        outcome.error = "the child died";
        outcome.exit_code = -1;
    } else if (all[0] == 'T') {
        outcome.text = all.substr(2);
    } else {
        outcome.error = all.substr(2);
        outcome.exit_code = static_cast<unsigned char>(all[1]);
    }
    return outcome;
}

}  // namespace

namespace {

/// With BERTH_TEST_OLD_KERNEL=1 the newer calls for mounts and look-ups do not exist, as before Linux 5.2, 5.6,
/// 5.9 and 5.12: the suite then tests what takes their place. From the first: a process asks its kernel once, and its
/// children do not ask again.
bool forget_new_calls() {
    const char* wanted = getenv("BERTH_TEST_OLD_KERNEL");
    if (wanted == nullptr || std::string(wanted) != "1") return false;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    // Calls of other architectures are for the filter under test, behind this one.
    seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
    bool good = filter != nullptr;
    for (const char* call :
         {"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "openat2",
          "close_range"})
        good = good && seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), seccomp_syscall_resolve_name(call), 0) == 0;
    if (!good || seccomp_load(filter) != 0) throw Error("forgetting the newer system calls");
    seccomp_release(filter);
    return true;
}

[[maybe_unused]] const bool forgotten = forget_new_calls();

}  // namespace

void as_user_here() {
    if (::geteuid() != 0) return;
    if (::setgroups(0, nullptr) != 0 || ::setresgid(ordinary, ordinary, ordinary) != 0 ||
        ::setresuid(ordinary, ordinary, ordinary) != 0)
        throw SysError("becoming the test user");
    // Changing ids made the process closed; a process that was executed by the user would be open.
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

uid_t test_uid() {
    return ::geteuid() == 0 ? ordinary : ::geteuid();
}
gid_t test_gid() {
    return ::geteuid() == 0 ? ordinary : ::getegid();
}

std::string missing_need() {
    static const std::string need = [] {
        Outcome outcome = in_container(bare_plan(), fill_sample, [] { return std::string("ready"); });
        return outcome.text == "ready" ? std::string()
               : outcome.error.empty() ? "the trial container hung"
                                       : outcome.error;
    }();
    return need;
}

Outcome in_child(const std::function<std::string()>& body, std::chrono::seconds limit) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
    Fd reading(ends[0]), writing(ends[1]);
    pid_t child = fixtures::forked();
    if (child == 0) {
        reading.reset();
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_body(writing.get(), body);
        ::_exit(0);
    }
    writing.reset();
    Outcome outcome = read_outcome(reading.get(), limit);
    fixtures::kill_one(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return outcome;
}

Outcome as_user(const std::function<std::string()>& body, std::chrono::seconds limit) {
    return in_child(
        [&] {
            as_user_here();
            return body();
        },
        limit);
}

ContainerImage make_image(const Fill& fill) {
    return make_image(std::vector<Fill>{fill});
}

ContainerImage make_image(const std::vector<Fill>& fills, const std::vector<squash::CompressorPool*>& pools,
                          const plan::ImageConfig& config) {
    std::vector<Fd> files;
    std::vector<squash::Tree> trees;
    std::vector<squash::LayerInfo> about;
    for (const Fill& fill : fills) {
        Fd file(::memfd_create("layer", MFD_CLOEXEC));
        squash::LayerWriter writer(file.get(), files.size() < pools.size() ? pools[files.size()] : nullptr);
        fill(writer);
        writer.finish();
        squash::LayerInfo info;
        trees.push_back(squash::read_tree(file.get(), "layer", static_cast<uint32_t>(files.size()), info));
        squash::add_sums(trees.back(), writer.sums());
        about.push_back(info);
        files.push_back(std::move(file));
    }
    std::string bytes = squash::build_index(squash::merge(std::move(trees)), about, config);
    // Mapped, as one of the store is.
    Fd index(::memfd_create("index", MFD_CLOEXEC));
    sys::write_all(index.get(), bytes, "the index");
    return {squash::Index::open(index.get(), "the index"), std::move(files)};
}

void add_file(squash::LayerWriter& writer, const std::string& path, const std::string& content, uint32_t mode) {
    squash::Attributes attributes;
    attributes.mode = mode;
    writer.begin_file(path, attributes);
    writer.append(content);
    writer.end_file();
}

std::string inside_program() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "inside";
}

void fill_sample(squash::LayerWriter& writer) {
    for (const char* path : {"etc", "tmp", "dev", "proc", "sys", "bin", "empty"}) writer.add_directory(path, {});
    add_file(writer, "bin/inside", slurp(inside_program()), 0755);
    add_file(writer, "etc/hello", "hello\n");
    add_file(writer, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    add_file(writer, "etc/group", "root:x:0:\n");
    writer.add_symlink("etc/link", {}, "hello");
}

plan::HostFacts user_facts() {
    if (::geteuid() != 0) return host_facts();
    plan::HostFacts facts;
    std::vector<std::string>* kinds[] = {&facts.existing, &facts.readable, &facts.writable};
    Outcome seen = as_user([] {
        plan::HostFacts own = host_facts();
        std::string out;
        for (const auto* kind : {&own.existing, &own.readable, &own.writable}) {
            for (const std::string& path : *kind) out += path + "\n";
            out += '\0';
        }
        return out;
    });
    std::vector<std::string> lists = split(seen.text, '\0');
    if (lists.size() < std::size(kinds)) throw Error(cat("taking facts as the test user: ", seen.error));
    for (size_t i = 0; i < std::size(kinds); ++i)
        for (std::string& path : split(lists[i], '\n'))
            if (!path.empty()) kinds[i]->push_back(std::move(path));
    return facts;
}

plan::Plan plan_for(plan::Request request, const plan::ImageConfig& config) {
    plan::Caller caller;
    caller.uid = test_uid();
    caller.gid = test_gid();
    caller.cwd = "/";
    return plan::make_plan(request, caller, {}, {}, user_facts(), config);
}

plan::Plan bare_plan() {
    plan::Plan plan;
    plan.sources.everything = true;
    plan.identity = {test_uid(), test_uid(), test_gid(), test_gid()};
    plan.workdir = "/";
    return plan;
}

plan::Edit bind_of(const std::string& source, const std::string& target, bool read_only) {
    plan::Mount mount;
    mount.source = source;
    mount.target = target;
    mount.read_only = read_only;
    return {mount, "option --container-mounts", "asked for"};
}

std::string run_task(const StartedContainer& container, const std::function<std::string()>& inside) {
    Outcome outcome = in_child([&] {
        join_container(container);
        return inside();
    });
    if (outcome.hung) throw Error("the task hung");
    if (!outcome.error.empty()) throw Error(outcome.error, outcome.exit_code);
    return outcome.text;
}

Outcome in_container(const plan::Plan& plan, const Fill& fill, const std::function<std::string()>& inside) {
    ContainerImage image = make_image(fill);
    return as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), {});
        return run_task(container, inside);
    });
}

Folder::Folder() {
    char name[] = "/tmp/berth-kernel-XXXXXX";
    if (::mkdtemp(name) == nullptr || ::chown(name, test_uid(), test_gid()) != 0)
        throw SysError("making a folder for the test");
    path_ = name;
}

Folder::~Folder() {
    try {
        // A container's folder has directories of mode 0 in it.
        sys::remove_tree(sys::open_file("/tmp", O_RDONLY | O_DIRECTORY).get(), path_.substr(5), path_);
    } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.what());
    }
}

void Folder::file(const std::string& name, const std::string& content) const {
    Fd fd = sys::open_file(*this / name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    sys::write_all(fd.get(), content, name);
    if (::fchown(fd.get(), test_uid(), test_gid()) != 0) throw SysError("giving a file to the test user");
}

void Folder::directory(const std::string& name) const {
    if (::mkdir((*this / name).c_str(), 0755) != 0 || ::chown((*this / name).c_str(), test_uid(), test_gid()) != 0)
        throw SysError("making a folder");
}

}  // namespace berth::kernel_test
