#include "runtime/squash/index/find.hh"

#include <deque>

#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr int link_limit = 40;  // as the kernel's (MAXSYMLINKS of linux/namei.h)
constexpr uint32_t root = 1;

}  // namespace

uint32_t find_path(const Index& index, const std::string& path) {
    std::deque<std::string> todo;
    auto push = [&](std::string_view text) {
        std::vector<std::string> parts = split(text, '/');
        todo.insert(todo.begin(), parts.begin(), parts.end());
    };
    push(path);
    uint32_t here = root;
    int links = 0;
    while (!todo.empty()) {
        std::string part = std::move(todo.front());
        todo.pop_front();
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            here = index.parent(here);
            continue;
        }
        uint32_t next = index.lookup(here, part);
        if (next == 0) return 0;
        auto target = index.symlink_target(next);
        if (!target) {
            here = next;
            continue;
        }
        if (++links > link_limit) return 0;
        if (target->starts_with('/')) here = root;
        push(*target);
    }
    return here;
}

}  // namespace berth::squash
