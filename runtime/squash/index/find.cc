#include "runtime/squash/index/find.hh"

#include <algorithm>
#include <deque>

#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr int link_limit = 40;  // as the kernel's (MAXSYMLINKS of linux/namei.h)
constexpr uint32_t root = 1;

}  // namespace

uint32_t find_path(const Index& index, const std::string& path, std::string* real) {
    std::deque<std::string> todo;
    std::string way;  // of the names that lead to `here`
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
            way.erase(std::min(way.rfind('/'), way.size()));
            continue;
        }
        uint32_t next = index.lookup(here, part);
        if (next == 0) return 0;
        auto target = index.symlink_target(next);
        if (!target) {
            here = next;
            way += cat("/", part);
            continue;
        }
        if (++links > link_limit) return 0;
        if (target->starts_with('/')) {
            here = root;
            way.clear();
        }
        push(*target);
    }
    if (real) *real = way.empty() ? "/" : std::move(way);
    return here;
}

}  // namespace berth::squash
