// The usual system call filters, defined in a file that runtime/sandbox/generate/filters.cc writes when berth is built.
#pragma once
#include <linux/filter.h>

#include <cstddef>

namespace berth::sandbox {

extern const sock_filter confined_filter[];
extern const size_t confined_filter_length;
extern const sock_filter confined_fake_root_filter[];
extern const size_t confined_fake_root_filter_length;

}  // namespace berth::sandbox
