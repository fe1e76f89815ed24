// A folder that nobody else has, for files that another program is to read.
#pragma once
#include <string>
#include <string_view>

namespace berth {

/// Mode 0700, with a name that nobody can foresee. It goes with this object, with all that is in it; what cannot be
/// removed stays, without a word.
class PrivateFolder {
  public:
    /// `start` is a path and the beginning of a name, "/tmp/berth-gpgv"; `purpose` is for the message, "for gpgv".
    /// Throws SysError.
    PrivateFolder(const std::string& start, std::string_view purpose);
    ~PrivateFolder();
    PrivateFolder(const PrivateFolder&) = delete;
    PrivateFolder& operator=(const PrivateFolder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(std::string_view name) const;

  private:
    std::string path_;
};

}  // namespace berth
