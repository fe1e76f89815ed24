#include "hooks/variable.hh"

namespace berth::hooks {

const char* variable(const std::vector<std::string>& environment, std::string_view name) {
    for (const std::string& text : environment)
        if (text.size() > name.size() && text[name.size()] == '=' && text.starts_with(name))
            return text.c_str() + name.size() + 1;
    return nullptr;
}

}  // namespace berth::hooks
