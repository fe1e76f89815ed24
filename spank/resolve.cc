#include "spank/resolve.hh"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/environment.hh"
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

/// The image as written, when it is one of a registry; else empty.
std::string registry_image() {
    const std::string* image = plan::given(step().options, "container-image");
    if (image == nullptr || plan::parse_reference(*image).kind != plan::Reference::Kind::registry) return {};
    return *image;
}

/// The same, when it is named by tag.
std::string image_by_tag() {
    std::string image = registry_image();
    return image.empty() || plan::parse_reference(image).digest ? std::string() : image;
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
    std::string out;
    while (!out.ends_with('\n')) {
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
        setenv(plan::agreement_variable, plan::agreement_value(image, cat(listener.port, ' ', secret)).c_str(), 1);
    } catch (const Error&) {
        step().tracker.reset();
    }
}

/// Those of a job around this one are for another image, or another time.
void forget_answers() {
    unsetenv(plan::frozen_variable);
    unsetenv(plan::agreement_variable);
}

}  // namespace

void start_resolving() {
    unsetenv(plan::agreement_variable);
    std::string image = image_by_tag();
    if (image.empty()) return;
    const char* before = std::getenv(plan::frozen_variable);
    bool frozen = before != nullptr && std::getenv("SLURM_JOB_ID") != nullptr &&
                  plan::frozen_digest({cat(plan::frozen_variable, "=", before)}, image).has_value();
    if (!frozen) ask(image);
}

void finish_resolving(spank_t spank, uint32_t nodes) {
    unsetenv(plan::agreement_variable);
    // First, so that it starts while the answer is awaited.
    if (std::string image = registry_image(); nodes > 1 && !image.empty()) start_tracker(spank, image, nodes);
    if (!step().resolver) return;
    auto digest = Digest::parse(trimmed(answer_of(step().resolver->output(), step().resolver_started)));
    step().resolver.reset();
    unsetenv(plan::frozen_variable);
    if (digest) setenv(plan::frozen_variable, plan::frozen_value(image_by_tag(), *digest).c_str(), 1);
}

void resolve_now(spank_t spank) {
    forget_answers();
    std::string image = image_by_tag();
    if (image.empty()) return;
    ask(image);
    finish_resolving(spank, 1);  // a batch script runs on one node
    const char* frozen = std::getenv(plan::frozen_variable);
    if (frozen != nullptr)
        slurm_spank_log("berth: %s is %s for this job", printable(image).c_str(),
                        std::string(frozen).substr(image.size() + 1).c_str());
}

}  // namespace berth::spank
