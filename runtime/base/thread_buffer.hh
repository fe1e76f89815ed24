// A buffer of a thread for what lasts no longer than one request. Its memory can be given back to the kernel by another
// thread, which malloc's cannot: the threads that have it wait in the kernel for their next request.
#pragma once
#include <cstddef>
#include <span>

namespace berth {

/// To be declared thread_local.
class ThreadBuffer {
  public:
    ThreadBuffer() = default;
    ~ThreadBuffer();
    ThreadBuffer(const ThreadBuffer&) = delete;
    ThreadBuffer& operator=(const ThreadBuffer&) = delete;

    /// `size` bytes with any content, valid until the next call. Of memory that is new the first `present` bytes are
    /// brought in at once. Throws std::bad_alloc.
    std::span<char> get(size_t size, size_t present);

    /// Buffers that the calling thread makes from here on are those of `owner`, whatever that is.
    static void set_owner(const void* owner);

    /// Gives the memory of all buffers of `owner`, and of those that have none, back; their content is lost, and they
    /// can be used on. Nobody may use one of them meanwhile.
    static void forget(const void* owner);

  private:
    void release();

    char* memory_ = nullptr;
    size_t capacity_ = 0;
};

}  // namespace berth
