// The usual system call filters, defined in a file that runtime/sandbox/generate/filters.cc writes when berth is built.
#pragma once
#include <linux/filter.h>

#include <cstddef>

namespace berth::sandbox {

extern const sock_filter confined_filter[], confined_fake_root_filter[], confined_x32_filter[],
    confined_fake_root_x32_filter[];
extern const size_t confined_filter_length, confined_fake_root_filter_length, confined_x32_filter_length,
    confined_fake_root_x32_filter_length;

}  // namespace berth::sandbox
