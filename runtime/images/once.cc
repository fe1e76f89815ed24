#include "runtime/images/once.hh"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/store/extracted.hh"

namespace berth {

void Reporter::operator()(uint64_t done, uint64_t total) {
    pollfd waiting{watch_.descriptor, POLLIN, 0};
    if (watch_.descriptor >= 0 && ::poll(&waiting, 1, 0) > 0) watch_.ready();
    auto now = std::chrono::steady_clock::now();
    if (!watch_.progress || now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    watch_.progress(cat(work_, ": ", done >> 20, " of ", total >> 20, " MB"));
}

namespace {

Lock wait_for_turn(const store::Store& store, const Digest& key, const std::string& work, const PullWatch& watch) {
    for (bool told = false;; told = true) {
        if (Lock turn = store.try_lock(key)) return turn;
        if (!told && watch.progress) watch.progress(cat("waiting for ", store.lock_owner(key), ", which is ", work));
        pollfd waiting{watch.descriptor, POLLIN, 0};
        if (::poll(&waiting, 1, 50) > 0) watch.ready();
    }
}

}  // namespace

void make_once(const store::Store& store, const Digest& key, const std::string& work, const PullWatch& watch,
               const std::function<bool()>& find, const std::function<void()>& make) {
    if (find()) return;
    Lock turn = wait_for_turn(store, key, work, watch);
    if (!find()) make();
}

void read_lines(const Child& child, const PullWatch& watch, const std::function<bool(const std::string& line)>& take) {
    std::string pending;
    pollfd waiting[2] = {{child.output(), POLLIN, 0}, {watch.descriptor, POLLIN, 0}};
    for (;;) {
        if (::poll(waiting, 2, -1) < 0 && errno != EINTR) throw SysError("waiting for a pull");
        if (waiting[1].revents != 0) watch.ready();
        if (waiting[0].revents == 0) continue;
        char buffer[4096];
        ssize_t got = ::read(child.output(), buffer, sizeof buffer);
        if (got < 0 && errno != EINTR) throw SysError("reading the report of a pull");
        if (got == 0) return;
        if (got > 0) pending.append(buffer, static_cast<size_t>(got));
        for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
            if (!take(pending.substr(0, end))) return;
    }
}

Digest key_in_store(const OpenedImage& opened, const store::Store& store) {
    // What was verified, whatever the file was when it was made into something else before.
    if (opened.image.sums) return Digest::from_hex(opened.image.sums->content).value();
    if (!opened.digest) return store::file_key(opened.image.layers.at(0).get());
    return store.image_of(*opened.digest).value_or(*opened.digest);
}

}  // namespace berth
