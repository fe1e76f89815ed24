// The file that a plugstack.conf names, in which `berth doctor` looks for a constant.
#include <sys/mman.h>

#include "runtime/base/sys.hh"
#include "runtime/doctor/plugin_version.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    Fd file(::memfd_create("plugin", MFD_CLOEXEC));
    sys::write_all(file.get(), input, "plugin");
    hostile::refusing([&] {
        auto version = plugin_version_in(file.get());
        if (!version) return;
        std::string_view bytes(reinterpret_cast<const char*>(&*version), sizeof *version);
        hostile::must(input.find(bytes) != input.npos, "a version that is not in the file");
    });
}

const hostile::Registration registration("plugin_elf", run);

}  // namespace
