// What is made of an image once and kept in the store: one process makes it while the others wait.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "runtime/base/child.hh"
#include "runtime/images/opened.hh"
#include "runtime/store/store.hh"

namespace berth {

/// Says every second how far the work is, and looks after the watch's descriptor whenever it is called.
class Reporter {
  public:
    /// `work` is what is done to which image: "extracting image x". Both outlive this object.
    Reporter(const std::string& work, const PullWatch& watch) : work_(work), watch_(watch) {}
    void operator()(uint64_t done, uint64_t total);

  private:
    const std::string& work_;
    const PullWatch& watch_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Calls `find`; when that finds nothing (false), waits until nobody else does work under `key`, in steps, so that the
/// user can end it, and calls `make` unless `find` succeeds then.
void make_once(const store::Store& store, const Digest& key, const std::string& work, const PullWatch& watch,
               const std::function<bool()>& find, const std::function<void()>& make);

/// Reads what the program prints until its end, or until `take` returns false, a line at a time, while looking after
/// the watch's descriptor.
void read_lines(const Child& child, const PullWatch& watch,
                const std::function<bool(const std::string& line)>& take);

/// The key of an image in the store: of its manifest, or of the image file that `opened` is.
Digest key_in_store(const OpenedImage& opened, const store::Store& store);

}  // namespace berth
