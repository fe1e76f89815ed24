#include "runtime/base/thread_buffer.hh"

#include <algorithm>
#include <thread>

#include "tests/catch.hh"

using namespace berth;

TEST_CASE("a buffer's memory is given back for its owner, and for nobody else", "[base]") {
    int one = 0, other = 0;
    auto keeps = [](const void* owner, const void* forgotten) {
        bool kept = false;
        // The owner is the thread's, for good.
        std::thread([&] {
            if (owner != nullptr) ThreadBuffer::set_owner(owner);
            ThreadBuffer buffer;
            std::span<char> bytes = buffer.get(100000, 100000);
            std::ranges::fill(bytes, 'x');
            ThreadBuffer::forget(forgotten);
            kept = std::ranges::count(bytes, 'x') == 100000;
            std::ranges::fill(bytes, 'y');
            CHECK(std::ranges::count(bytes, 'y') == 100000);
        }).join();
        return kept;
    };
    CHECK(keeps(&one, &other));
    CHECK_FALSE(keeps(&one, &one));
    // What was read before there were owners is nobody's.
    CHECK_FALSE(keeps(nullptr, &one));
}
