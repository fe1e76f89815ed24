// Variables of the user's that berth-pull does not have in its environment: it asks the program that started it.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace berth::pull {

/// For any thread. What was answered once stays known when nobody answers any more.
class AskedVariables {
  public:
    /// Prints "variable NAME" into the report and reads a line: "=VALUE", or an empty one for a variable that is not
    /// set. Nothing is set once standard input has ended.
    std::optional<std::string> value(const std::string& name);

  private:
    std::mutex mutex_;
    std::map<std::string, std::string> known_;
};

}  // namespace berth::pull
