#include "runtime/sandbox/filter_table.hh"
#include "runtime/sandbox/seccomp.hh"

namespace berth::sandbox {

namespace {

std::string bytes_of(const sock_filter* program, size_t length) {
    return {reinterpret_cast<const char*>(program), length * sizeof *program};
}

std::string prepared(const FilterRules& rules) {
    if (rules.x32)
        return rules.fake_root ? bytes_of(confined_fake_root_x32_filter, confined_fake_root_x32_filter_length)
                               : bytes_of(confined_x32_filter, confined_x32_filter_length);
    return rules.fake_root ? bytes_of(confined_fake_root_filter, confined_fake_root_filter_length)
                           : bytes_of(confined_filter, confined_filter_length);
}

}  // namespace

std::string filter_for(const FilterRules& rules) {
    // To build one takes up to a millisecond, a tenth of a start.
    if (!rules.confine || !rules.allow.empty() || !rules.deny.empty()) return system_call_filter(rules);
    return head_of_filter(rules) + prepared(rules);
}

}  // namespace berth::sandbox
