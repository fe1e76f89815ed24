#include "runtime/sandbox/fake_chown.hh"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace berth::sandbox {

namespace {

using Code = std::vector<sock_filter>;

/// A way into the kernel: its number in struct seccomp_data, and whose calls it has.
struct Entry {
    uint32_t audit;
    std::vector<uint32_t> architectures;  ///< of libseccomp
    bool has_short_ids;                   ///< of 16 bits, in the calls that have a form with "32" besides
};

struct Call {
    const char* name;
    unsigned uid_argument;  ///< its gid is the next one
    bool has_short_form;    ///< see Entry::has_short_ids
};

constexpr Call calls[] = {{"chown", 1, true},    {"lchown", 1, true},    {"fchown", 1, true},   {"fchownat", 2, false},
                          {"chown32", 1, false}, {"lchown32", 1, false}, {"fchown32", 1, false}};

std::vector<Entry> entries(bool x32) {
    switch (seccomp_arch_native()) {
        case SCMP_ARCH_X86_64: {
            std::vector<uint32_t> wide = {SCMP_ARCH_X86_64};
            if (x32) wide.push_back(SCMP_ARCH_X32);
            return {{AUDIT_ARCH_X86_64, wide, false}, {AUDIT_ARCH_I386, {SCMP_ARCH_X86}, true}};
        }
        case SCMP_ARCH_AARCH64:
            return {{AUDIT_ARCH_AARCH64, {SCMP_ARCH_AARCH64}, false}, {AUDIT_ARCH_ARM, {SCMP_ARCH_ARM}, true}};
        default:
            return {};
    }
}

sock_filter jump(size_t distance) { return BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(distance)); }

sock_filter jump_if_equal(uint32_t value, size_t equal, size_t other) {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, static_cast<uint8_t>(equal), static_cast<uint8_t>(other));
}

void append(Code& to, const Code& code) { to.insert(to.end(), code.begin(), code.end()); }

/// Calls that have their ids in the same place.
struct Group {
    unsigned uid_argument;
    bool is_short;
    std::vector<uint32_t> numbers = {};
};

std::vector<Group> groups_of(const Entry& entry, const std::vector<std::string>& except) {
    std::vector<Group> out;
    for (const Call& call : calls) {
        if (std::ranges::find(except, call.name) != except.end()) continue;
        bool is_short = entry.has_short_ids && call.has_short_form;
        auto group = std::ranges::find_if(out, [&](const Group& known) {
            return known.uid_argument == call.uid_argument && known.is_short == is_short;
        });
        if (group == out.end()) group = out.insert(group, Group{call.uid_argument, is_short});
        for (uint32_t architecture : entry.architectures)
            if (int number = seccomp_syscall_resolve_name_arch(architecture, call.name); number >= 0)
                group->numbers.push_back(static_cast<uint32_t>(number));
    }
    std::erase_if(out, [](const Group& group) { return group.numbers.empty(); });
    return out;
}

/// Puts the lower half of an argument into the accumulator, which both kinds of processor have first.
Code load_id(unsigned argument, bool is_short) {
    auto place = static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    Code out = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place)};
    if (is_short) out.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff));
    return out;
}

/// For a call of the group: goes on `after` instructions behind its own end, or returns 0 to the caller.
Code check_ids(const Group& group, const OwnIds& own, size_t after) {
    const uint32_t unchanged = group.is_short ? 0xffff : 0xffffffff;
    Code gid = load_id(group.uid_argument + 1, group.is_short);
    gid.push_back(jump_if_equal(own.gid, 1, 0));
    gid.push_back(jump_if_equal(unchanged, 0, 1));
    gid.push_back(jump(1 + after));
    Code out = load_id(group.uid_argument, group.is_short);
    out.push_back(jump_if_equal(own.uid, 1, 0));
    out.push_back(jump_if_equal(unchanged, 0, gid.size()));
    append(out, gid);
    out.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO));
    return out;
}

/// With the architecture in the accumulator. Goes on at its end for another one, and `rest` instructions behind it for
/// what is none of its concern.
Code entry_code(const Entry& entry, const OwnIds& own, const std::vector<std::string>& except, size_t rest) {
    Code body = {jump(rest)};
    for (const Group& group : groups_of(entry, except)) {
        Code check = check_ids(group, own, body.size() + rest), select;
        for (size_t left = group.numbers.size(); left > 0; --left)
            select.push_back(jump_if_equal(group.numbers[left - 1], left, 0));
        select.push_back(jump(check.size()));
        append(select, check);
        append(select, body);
        body = std::move(select);
    }
    Code out = {jump_if_equal(entry.audit, 0, body.size() + 1),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    append(out, body);
    return out;
}

}  // namespace

std::string fake_chown(const OwnIds& own, const std::vector<std::string>& except, bool x32) {
    // From its end to its beginning, since jumps lead forward.
    Code out;
    for (const Entry& entry : entries(x32)) {
        Code code = entry_code(entry, own, except, out.size());
        append(code, out);
        out = std::move(code);
    }
    out.insert(out.begin(), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
    return {reinterpret_cast<const char*>(out.data()), out.size() * sizeof(sock_filter)};
}

}  // namespace berth::sandbox
