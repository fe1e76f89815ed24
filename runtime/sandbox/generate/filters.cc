// Run by make: prints the filters that nearly every start uses as a C++ file, so that no start has to build them.
#include <cstdio>
#include <cstring>
#include <linux/filter.h>

#include "runtime/base/error.hh"
#include "runtime/sandbox/seccomp.hh"

namespace {

void print(const char* name, const std::string& program) {
    std::printf("const sock_filter %s[] = {\n", name);
    for (size_t at = 0; at + sizeof(sock_filter) <= program.size(); at += sizeof(sock_filter)) {
        sock_filter step;
        std::memcpy(&step, program.data() + at, sizeof step);
        std::printf("    {0x%04x, %u, %u, 0x%08x},\n", step.code, step.jt, step.jf, step.k);
    }
    std::printf("};\nconst size_t %s_length = sizeof %s / sizeof %s[0];\n", name, name, name);
}

}  // namespace

int main() {
    try {
        using berth::sandbox::system_call_filter;
        std::puts("#include \"runtime/sandbox/filter_table.hh\"\nnamespace berth::sandbox {");
        print("confined_filter", system_call_filter({.confine = true, .x32 = false}));
        print("confined_fake_root_filter", system_call_filter({.confine = true, .fake_root = true, .x32 = false}));
        print("confined_x32_filter", system_call_filter({.confine = true}));
        print("confined_fake_root_x32_filter", system_call_filter({.confine = true, .fake_root = true}));
        std::puts("}");
        return 0;
    } catch (const berth::Error& error) {
        std::fprintf(stderr, "generating the system call filters: %s\n", error.what());
        return 1;
    }
}
