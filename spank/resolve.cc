#include "spank/resolve.hh"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/text.hh"
#include "runtime/request/frozen.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "spank/listener.hh"
#include "spank/slurm.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto timeout = std::chrono::seconds(5);
/// Before what `berth resolve` says of an image that its registry does not have.
constexpr std::string_view unknown = "unknown ";

/// The image, when it is one of a registry.
std::optional<plan::Reference> registry_image() {
    const std::string* text = plan::given(step().options, "container-image");
    if (text == nullptr || text->empty()) return std::nullopt;
    plan::Reference image = plan::parse_reference(*text);
    return image.kind == plan::Reference::Kind::registry ? std::optional(image) : std::nullopt;
}

/// The same as written, when it is named by tag; else empty.
std::string image_by_tag() {
    auto image = registry_image();
    return image && !image->digest ? image->written : std::string();
}

/// Without the program on this machine, the nodes ask.
void ask(const std::string& image) {
    step().resolver_started = Clock::now();
    try {
        step().resolver = std::make_unique<Child>(step().config.helper, std::vector<std::string>{"resolve", image});
    } catch (const SysError&) {
        step().resolver.reset();
    }
}

/// What a program prints up to the first line's end, or its own; empty when that takes longer than the timeout that
/// began at `start`.
std::string answer_of(int output, Clock::time_point start) {
    constexpr size_t most = 64 << 10;
    std::string out;
    while (!out.ends_with('\n') && out.size() < most) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(start + timeout - Clock::now()).count();
        pollfd entry{output, POLLIN, 0};
        int ready = poll(&entry, 1, left > 0 ? static_cast<int>(left) : 0);
        if (ready < 0 && errno == EINTR) continue;
        char buffer[256];
        ssize_t size = ready > 0 ? read(output, buffer, sizeof buffer) : -1;
        if (size < 0) return {};
        if (size == 0) return out;
        out.append(buffer, static_cast<size_t>(size));
    }
    return out;
}

/// In a process that srun has forked: of all that srun has to say the secret is for the step's nodes alone. unsetenv()
/// could wait for a lock that another thread of srun had at the fork.
void forget_agreement_in_child() {
    std::string_view name(plan::agreement_variable);
    char** kept = environ;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        std::string_view text(*entry);
        if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") *kept++ = *entry;
    }
    if (kept != nullptr) *kept = nullptr;
}

/// Slurm takes the step's environment from srun's, and asks the plugin nothing between that and the end. Its own
/// programs, SrunProlog, SrunEpilog, --prolog and --epilog, are forked.
void hide_agreement_from_programs() {
    static const int result = pthread_atfork(nullptr, nullptr, forget_agreement_in_child);
    if (result != 0) throw SysError("keeping the step's secret from srun's programs", result);
}

/// Without the program on this machine, or a free port, each node runs what it finds, as BERTH_CONTAINER_DIGEST then
/// tells, and pulls for itself.
void start_tracker(spank_t spank, const std::string& image, uint32_t nodes) {
    const slurm_conf_t* known = settings(spank);
    const uint16_t* range = known != nullptr ? known->srun_port_range : nullptr;
    try {
        Listener listener = listen_in(range != nullptr ? range[0] : 0, range != nullptr ? range[1] : 0);
        std::string secret = random_word();
        std::vector<std::string> environment = environment_of_this_process();
        environment.push_back(cat(plan::secret_variable, "=", secret));
        step().tracker = std::make_unique<Child>(step().config.helper,
                                                 std::vector<std::string>{"agree", std::to_string(nodes)},
                                                 listener.socket.get(), -1, &environment);
        hide_agreement_from_programs();
        setenv(plan::agreement_variable, plan::agreement_value(image, cat(listener.port, ' ', secret)).c_str(), 1);
    } catch (const Error&) {
        step().tracker.reset();
    }
}

/// In a job whose batch script runs in the same image its answer stands.
void start_asking(const std::string& image) {
    const char* before = std::getenv(plan::frozen_variable);
    bool frozen = before != nullptr && std::getenv("SLURM_JOB_ID") != nullptr &&
                  plan::frozen_digest({cat(plan::frozen_variable, "=", before)}, image).has_value();
    if (!frozen) ask(image);
}

/// The image by tag that srun has asked about. Options come again with each part of a heterogeneous step.
std::string asked;

/// That of a job around this one is for another image, or another time.
void forget_digest() {
    unsetenv(plan::frozen_variable);
    unsetenv(plan::refused_variable);
}

/// Waits for the answer about the tag, and hands it to the nodes: a digest or "-", then the logins that were refused.
/// Returns what was answered.
std::string take_answer() {
    if (!step().resolver) return {};
    std::string answer(trimmed(answer_of(step().resolver->output(), step().resolver_started)));
    step().resolver.reset();
    forget_digest();
    if (answer.starts_with(unknown)) return answer;
    std::vector<std::string> words = split(answer, ' ');
    auto digest = Digest::parse(words[0]);
    words.erase(words.begin());
    if (!words.empty()) setenv(plan::refused_variable, plan::refused_value(image_by_tag(), words).c_str(), 1);
    if (digest) setenv(plan::frozen_variable, plan::frozen_value(image_by_tag(), *digest).c_str(), 1);
    return answer;
}

/// A registry that has no such image, as `berth resolve` tells it: "unknown warn LINE" or "unknown refuse LINE". Throws
/// Error where the site wants that.
void tell_of_unknown(const std::string& answer) {
    constexpr std::string_view warns = "unknown warn ", refuses = "unknown refuse ";
    if (answer.starts_with(refuses))
        throw Error(cat(printable(answer.substr(refuses.size()), 2048),
                        "; the job is not submitted (slurm.unknown_image)"));
    if (answer.starts_with(warns))
        slurm_spank_log("berth: %s; the job is submitted all the same",
                        printable(answer.substr(warns.size()), 2048).c_str());
}

void forget_answers() {
    forget_digest();
    unsetenv(plan::agreement_variable);
}

}  // namespace

void start_resolving() {
    static unsigned parts = 0;
    ++parts;
    unsetenv(plan::agreement_variable);
    std::string image = image_by_tag();
    if (image.empty()) return;
    if (image != std::exchange(asked, image)) start_asking(image);
    // Slurm makes the environments of the parts before it calls local_user_init, and calls that for one of them.
    if (parts > 1) take_answer();
}

void finish_resolving(spank_t spank, uint32_t nodes) {
    unsetenv(plan::agreement_variable);
    // First, so that it starts while the answer is awaited.
    if (auto image = registry_image(); nodes > 1 && image) start_tracker(spank, image->written, nodes);
    take_answer();
}

void resolve_now() {
    forget_answers();
    std::string image = image_by_tag();
    if (image.empty()) return;
    ask(image);
    tell_of_unknown(take_answer());  // a batch script runs on one node, and so needs no tracker
    // A login may be mended before the job starts.
    unsetenv(plan::refused_variable);
    const char* frozen = std::getenv(plan::frozen_variable);
    // Not with --quiet, as what sbatch says of the job itself.
    if (frozen != nullptr)
        slurm_info("berth: %s is %s for this job", printable(image).c_str(),
                   std::string(frozen).substr(image.size() + 1).c_str());
}

}  // namespace berth::spank
