#include "spank/resolve.hh"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/text.hh"
#include "runtime/request/frozen.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "spank/slurm.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto timeout = std::chrono::seconds(5);

/// The image as written, when it is one of a registry and named by tag; else empty.
std::string image_by_tag() {
    const std::string* image = plan::given(step().options, "container-image");
    if (image == nullptr) return {};
    plan::Reference reference = plan::parse_reference(*image);
    return reference.kind == plan::Reference::Kind::registry && !reference.digest ? *image : std::string();
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

/// Without the program on this machine, each node runs what it finds, as BERTH_CONTAINER_DIGEST then tells.
void let_nodes_agree(spank_t spank, const std::string& image) {
    const slurm_conf_t* known = settings(spank);
    const uint16_t* range = known != nullptr ? known->srun_port_range : nullptr;
    std::vector<std::string> arguments = {"agree", std::to_string(range != nullptr ? range[0] : 0),
                                          std::to_string(range != nullptr ? range[1] : 0)};
    try {
        step().agreement = std::make_unique<Child>(step().config.helper, arguments);
    } catch (const SysError&) {
        return;
    }
    std::string place(trimmed(answer_of(step().agreement->output(), Clock::now())));
    if (!place.empty()) setenv(plan::agreement_variable, plan::agreement_value(image, place).c_str(), 1);
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
    if (!step().resolver) return;
    auto digest = Digest::parse(trimmed(answer_of(step().resolver->output(), step().resolver_started)));
    step().resolver.reset();
    forget_answers();
    std::string image = image_by_tag();
    if (digest)
        setenv(plan::frozen_variable, plan::frozen_value(image, *digest).c_str(), 1);
    else if (nodes > 1)
        let_nodes_agree(spank, image);
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
