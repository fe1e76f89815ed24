// A file that appears whole and durable under its name, or not at all.
#pragma once
#include <string>

#include "runtime/base/fd.hh"

namespace berth::pull {

/// A file to be, in the folder where it will appear: without a name where the file system can do that, so that a kill
/// leaves nothing.
class OutputFile {
  public:
    /// Throws Error when nothing can be made in the folder of `path`.
    explicit OutputFile(const std::string& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    /// Open for reading and writing.
    int fd() const { return file_.get(); }

    /// Throws Error when there is something of that name. Before the work as well as at its end: nobody wants to wait
    /// for a refusal.
    void refuse_existing() const;

    /// Makes it durable and gives it its name; with `force` in place of what has it. Throws Error.
    void publish(bool force);

    /// An empty file beside it, without a name in any case.
    Fd scratch() const;

    /// For who is about to be ended by a signal: takes away the names of all files that are not published. What would
    /// give one a name waits for ever then.
    static void abandon_all();

  private:
    bool link_as(const std::string& name) const;
    std::string file_path() const;
    void name_temporarily(const std::string& name);
    void forget_temporary();
    [[noreturn]] void refuse() const;
    [[noreturn]] void fail() const;

    std::string path_, name_, temporary_;
    Fd folder_, file_;
};

}  // namespace berth::pull
