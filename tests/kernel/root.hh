// What the tests of the plugin share that act as root.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "tests/catch.hh"

namespace berth::kernel_test {

/// A script of root's in a folder of its own, in place of `berth`.
class Program {
  public:
    explicit Program(const std::string& script) {
        char name[] = "/tmp/berth-helper-XXXXXX";
        if (mkdtemp(name) == nullptr) throw SysError("making a folder");
        folder_ = name;
        chmod(name, 0755);
        Fd file(open(path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
        sys::write_all(file.get(), script, path());
        fchmod(file.get(), 0755);
    }
    ~Program() {
        unlink(path().c_str());
        rmdir(folder_.c_str());
    }
    std::string path() const { return folder_ + "/berth"; }

  private:
    std::string folder_;
};

}  // namespace berth::kernel_test
