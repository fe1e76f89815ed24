// A shared library of an image, of which parts are read ahead.
#include "runtime/mount/fuse/elf_loads.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    size_t asked = 0;
    mount::ElfLoads loads = mount::elf_loads([&](uint64_t offset, size_t size) {
        asked += size;
        return offset < input.size() ? std::string(input.substr(offset, size)) : std::string();
    });
    hostile::must(asked <= 160 << 10, "more is read than a few tables");
    hostile::must(loads.parts.size() <= 64 && loads.needed.size() <= 256, "too many parts or names");
    for (const std::string& name : loads.needed)
        hostile::must(!name.empty() && name.find('/') == name.npos, "a name that leads elsewhere");
}

const hostile::Registration registration("elf_loads", run);

}  // namespace
