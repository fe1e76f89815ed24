// A parser that reads bytes from outside, as one function: libFuzzer feeds it (fuzz_main.cc), and the unit tests feed
// it what is kept (replay_test.cc). README.md has the list of all of them.
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

/// All of them, in any order.
std::vector<Target>& targets();

/// Adds a target at the start of the program: one such object in each fuzz_*.cc.
struct Registration {
    Registration(const char* name, void (*run)(std::string_view)) { targets().push_back({name, run}); }
};

/// Runs what may refuse its input by berth::Error and may do nothing else. Throws std::logic_error when the text of
/// that error is not fit for a terminal; any other exception goes on to the caller, who takes it for a crash.
void refusing(const std::function<void()>& parse);

/// Throws std::logic_error, which counts as a crash, unless the property holds.
void must(bool holds, const char* otherwise);

/// One line without control characters, as messages and logs have them.
bool is_plain_line(std::string_view text);

/// Cuts bytes off the front of an input: for targets that need more than one text. All that is left when there are
/// fewer.
std::string_view take(std::string_view& input, size_t size);
/// The next byte, 0 at the end.
unsigned take_byte(std::string_view& input);
/// What stands before the next line end, which is taken too; all that is left when there is none.
std::string_view take_line(std::string_view& input);

}  // namespace berth::hostile
