#include "runtime/base/thread_buffer.hh"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

#include "runtime/base/sys.hh"

namespace berth {

namespace {

/// The memory of all buffers. Never destroyed: threads that nobody waits for outlive it.
struct All {
    struct Part {
        size_t size;
        const void* owner;
    };
    std::mutex mutex;
    std::map<char*, Part> parts;
};

All& all() {
    static All* const value = new All;
    return *value;
}

thread_local const void* owner_here = nullptr;

}  // namespace

void ThreadBuffer::set_owner(const void* owner) { owner_here = owner; }

void ThreadBuffer::release() {
    if (memory_ == nullptr) return;
    {
        std::lock_guard lock(all().mutex);
        all().parts.erase(memory_);
    }
    ::munmap(memory_, capacity_);
    memory_ = nullptr;
    capacity_ = 0;
}

ThreadBuffer::~ThreadBuffer() { release(); }

std::span<char> ThreadBuffer::get(size_t size, size_t present) {
    if (size > capacity_) {
        release();
        void* made = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) throw std::bad_alloc();
        memory_ = static_cast<char*>(made);
        capacity_ = size;
        {
            std::lock_guard lock(all().mutex);
            all().parts.insert_or_assign(memory_, All::Part{capacity_, owner_here});
        }
        sys::make_present({memory_, std::min(size, present)});
    }
    return {memory_, size};
}

void ThreadBuffer::forget(const void* owner) {
    std::lock_guard lock(all().mutex);
    for (const auto& [memory, part] : all().parts)
        if (part.owner == owner || part.owner == nullptr) ::madvise(memory, part.size, MADV_DONTNEED);
}

}  // namespace berth
