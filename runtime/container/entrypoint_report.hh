// What an image's entrypoint tells the process that started it: whatever a process of the image likes. Pure.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.hh"

namespace berth {

/// The process that the entrypoint's command says it is: a decimal number and one byte more, the line's end. Nothing
/// for anything else.
std::optional<pid_t> reported_process(std::string_view text);

/// What the entrypoint prints, as lines. Holds no more of it than one line, at most 68 KiB.
class EntrypointLog {
  public:
    using Show = std::function<void(const std::string& line)>;

    /// Takes up to 4096 bytes as they came and gives each line that they end to `show`, fit for a terminal; none after
    /// the first MiB. `show` may be empty.
    void take(std::string_view bytes, const Show& show);

    /// The last line that was not empty, be it unfinished; fit for a terminal.
    std::string last() const;

  private:
    std::string text_, last_;
    size_t taken_ = 0;
};

/// What leads from one environment to another, but for what shells keep for themselves. A text without a name or
/// without "=" is no variable.
std::vector<plan::EnvironmentChange> differences(const std::vector<std::string>& before,
                                                 const std::vector<std::string>& after);

}  // namespace berth
