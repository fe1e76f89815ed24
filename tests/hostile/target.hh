// A parser that reads bytes from outside, as one function: libFuzzer feeds it (fuzz_main.cc), and the unit tests feed
// it what is kept (replay_test.cc).
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::hostile {

struct Target {
    std::string name;  ///< also of the program and of its folder in corpus/ and crashes/
    void (*run)(std::string_view input);
};

/// Those of this program: one in a fuzzing program, all of them in the unit tests.
std::vector<Target>& targets();

/// Adds a target at the start of the program: one such object in each fuzz_*.cc.
struct Registration {
    Registration(const char* name, void (*run)(std::string_view)) { targets().push_back({name, run}); }
};

/// Runs what may refuse its input by berth::Error and may do nothing else. Throws std::logic_error when the text of
/// that error is not fit for a terminal; any other exception goes on to the caller, who takes it for a crash.
void refusing(const std::function<void()>& parse);

/// Cuts bytes off the front of an input: for targets that need more than one text. All that is left when there are
/// fewer.
std::string_view take(std::string_view& input, size_t size);
/// The next byte, 0 at the end.
unsigned take_byte(std::string_view& input);

}  // namespace berth::hostile
