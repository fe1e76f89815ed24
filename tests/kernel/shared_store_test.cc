// Images of a store that the site offers, as containers: many users at once, from a read-only mount, and with damage.
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/store/store.hh"
#include "tests/fixtures/folder_state.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr uid_t account = 3000, first_user = 3001;
constexpr unsigned users = 20;

std::string content() {
    std::string out(3 << 20, '\0');
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * i >> 7);
    return out;
}

void fill(squash::LayerWriter& writer) {
    fill_sample(writer);
    add_file(writer, "data", content());
}

/// A folder that everybody may look into, with a store of one image, r.io/a:1, and room for users' own stores.
class Offered {
  public:
    Offered() {
        char name[] = "/tmp/berth-offered-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw SysError("making a folder");
        folder_ = name;
        ::chmod(name, 0755);
        store::Store store = store::Store::open(store::make_location(path(), ::geteuid(), {path()}, ::geteuid()));
        publish(store);
        if (::geteuid() != 0) return;
        ::lchown(path().c_str(), account, account);
        for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
            ::lchown(entry.path().c_str(), account, account);
    }
    ~Offered() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    Offered(const Offered&) = delete;
    Offered& operator=(const Offered&) = delete;

    std::string path() const { return folder_ + "/site"; }
    std::string layer() const { return cat(path(), "/layers/", std::string(64, 'b'), ".sqfs"); }
    uint64_t data_block() const { return data_block_; }

    /// What users of the site have for settings, and a store of their own each.
    plan::Site site() const {
        plan::Site out;
        out.store.path = folder_ + "/own-%U";
        out.store.pull = plan::PullPolicy::never;
        out.store.shared = {path()};
        out.store.shared_owner = std::to_string(::geteuid() == 0 ? account : ::geteuid());
        return out;
    }
    /// By root, who alone may write to the folder.
    void make_own_store(uid_t uid) const {
        std::string own = cat(folder_, "/own-", uid);
        if (::mkdir(own.c_str(), 0700) != 0 || ::lchown(own.c_str(), uid, uid) != 0) throw SysError("making " + own);
    }

  private:
    void publish(const store::Store& store) {
        Digest image("sha256:" + std::string(64, 'a')), diff_id("sha256:" + std::string(64, 'b'));
        store::NewFile file = store.new_file();
        squash::LayerWriter writer(file.fd(), nullptr);
        fill(writer);
        writer.finish();
        squash::LayerInfo info;
        info.name = store.layer_file(diff_id);
        std::vector<squash::Tree> trees;
        trees.push_back(squash::read_tree(file.fd(), "layer", 0, info));
        squash::add_sums(trees.back(), writer.sums());
        std::string bytes = squash::build_index(squash::merge(std::move(trees)), {info}, {});
        store.publish_layer(std::move(file), diff_id);
        store.publish_image(image, {"{}", cat("\"", diff_id, "\""), bytes});
        store.put_tag(plan::parse_reference("r.io/a:1"), {image, 1, ""});
        store::Store::OpenedFiles files = store.open_image(image);
        data_block_ = files.index.file(files.index.lookup(1, "data")).value().start;
    }

    std::string folder_;
    uint64_t data_block_ = 0;
};

/// Starts the image as the calling process's user and reads it in a task: "right", "wrong", or why not.
std::string started(const plan::Site& site) {
    plan::Caller caller;
    caller.uid = ::geteuid();
    caller.gid = ::getegid();
    caller.cwd = "/";
    OpenedImage opened = open_image(plan::parse_reference("r.io/a:1"), caller, site, {});
    if (opened.image.lease) return "a lease";
    plan::Plan plan = bare_plan();
    plan.identity = {caller.uid, caller.uid, caller.gid, caller.gid};
    StartedContainer container = start_container(plan, std::move(opened.image), {});
    return run_task(container, [] {
        try {
            return std::string(slurp("/data") == content() ? "right" : "wrong");
        } catch (const SysError& error) {
            return reason(error.number());
        }
    });
}

void become_user(uid_t uid) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)
        throw SysError("becoming a user");
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/// All of them at the same moment; the answers of those that differ from "right".
std::string all_started(const plan::Site& site) {
    auto [waiting, starting] = sys::make_pipe();
    std::vector<std::pair<pid_t, Fd>> children;
    for (unsigned i = 0; i < users; ++i) {
        auto [reading, writing] = sys::make_pipe();
        pid_t child = fixtures::forked();
        if (child == 0) {
            starting.reset();
            std::string answer;
            try {
                become_user(first_user + i);
                sys::read_all(waiting.get(), 1, "the starting signal");
                answer = started(site);
            } catch (const Error& error) {
                answer = error.what();
            }
            sys::write_all(writing.get(), answer, "an answer");
            ::_exit(0);
        }
        children.emplace_back(child, std::move(reading));
    }
    starting.reset();
    std::string out;
    for (auto& [child, reading] : children) {
        std::string answer = sys::read_all(reading.get(), 1 << 16, "an answer");
        if (answer != "right") out += answer + "\n";
        ::waitpid(child, nullptr, 0);
    }
    return out;
}

}  // namespace

TEST_CASE("twenty users start one image at once from a read-only shared store, and nothing in it changes",
          "[kernel][root][shared]") {
    NEED_ROOT();
    NEED_CONTAINERS();
    Offered offered;
    for (unsigned i = 0; i < users; ++i) offered.make_own_store(first_user + i);
    auto before = fixtures::state_of(offered.path());
    bool read_only = GENERATE(false, true);
    CAPTURE(read_only);
    Outcome outcome = in_child(
        [&] {
            if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                ::mount(offered.path().c_str(), offered.path().c_str(), nullptr, MS_BIND, nullptr) != 0 ||
                ::mount(nullptr, offered.path().c_str(), nullptr, MS_BIND | MS_REMOUNT | (read_only ? MS_RDONLY : 0),
                        nullptr) != 0)
                throw SysError("mounting the store");
            return all_started(offered.site());
        },
        std::chrono::seconds(120));
    CHECK(outcome.error == "");
    CHECK(outcome.text == "");
    CHECK_FALSE(outcome.hung);
    CHECK(fixtures::state_of(offered.path()) == before);
}

TEST_CASE("a flipped bit in a shared layer is EIO in the container", "[kernel][shared]") {
    NEED_CONTAINERS();
    Offered offered;
    if (::geteuid() == 0) offered.make_own_store(test_uid());
    plan::Site site = offered.site();
    auto start = [&] { return as_user([&] { return started(site); }); };
    CHECK(start().text == "right");
    fixtures::flip_bit(offered.layer(), offered.data_block() + 1000);
    Outcome outcome = start();
    CHECK(outcome.error == "");
    CHECK(outcome.text == reason(EIO));
}
