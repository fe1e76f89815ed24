#include "spank/device_filter.hh"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace berth::spank {

namespace {

/// Slurm attaches one; the kernel takes no more than 64 (BPF_CGROUP_MAX_PROGS).
constexpr uint32_t most_programs = 64;

long bpf(int command, bpf_attr& attributes) { return syscall(SYS_bpf, command, &attributes, sizeof attributes); }

bpf_attr no_attributes() {
    bpf_attr out;
    memset(&out, 0, sizeof out);
    return out;
}

/// The programs' numbers; -1 when they cannot be had.
long programs_of(int group, uint32_t (&numbers)[most_programs]) {
    bpf_attr query = no_attributes();
    query.query.target_fd = static_cast<uint32_t>(group);
    query.query.attach_type = BPF_CGROUP_DEVICE;
    query.query.prog_ids = reinterpret_cast<uint64_t>(numbers);
    query.query.prog_cnt = most_programs;
    return bpf(BPF_PROG_QUERY, query) == 0 ? static_cast<long>(query.query.prog_cnt) : -1;
}

bool attach(uint32_t number, int group, uint32_t flags) {
    bpf_attr find = no_attributes();
    find.prog_id = number;
    long program = bpf(BPF_PROG_GET_FD_BY_ID, find);
    if (program < 0) return false;
    bpf_attr how = no_attributes();
    how.target_fd = static_cast<uint32_t>(group);
    how.attach_bpf_fd = static_cast<uint32_t>(program);
    how.attach_type = BPF_CGROUP_DEVICE;
    how.attach_flags = flags;
    bool attached = bpf(BPF_PROG_ATTACH, how) == 0;
    close(static_cast<int>(program));
    return attached;
}

}  // namespace

bool copy_device_filter(int from, int to) {
    uint32_t numbers[most_programs];
    long count = programs_of(from, numbers);
    for (long i = 0; i < count; ++i)
        if (!attach(numbers[i], to, count > 1 ? BPF_F_ALLOW_MULTI : 0)) return false;
    return count >= 0;
}

}  // namespace berth::spank
