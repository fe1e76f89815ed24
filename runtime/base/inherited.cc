#include "runtime/base/inherited.hh"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/command.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/listing.hh"
#include "runtime/base/text.hh"

namespace berth {

InheritedDescriptors::InheritedDescriptors(const std::string& pmi) {
    sys::Listing listing = sys::open_listing("/proc/self/fd");
    if (!listing) throw SysError("looking for inherited descriptors in /proc/self/fd");
    while (const dirent* entry = ::readdir(listing.get())) {
        std::string name = entry->d_name;
        if (name.find_first_not_of("0123456789") != name.npos || name == pmi) continue;
        int number = std::stoi(name);
        if (number <= STDERR_FILENO || number == ::dirfd(listing.get())) continue;
        ::fcntl(number, F_SETFD, FD_CLOEXEC);
        numbers_.push_back(number);
    }
}

void InheritedDescriptors::close() const {
    for (int number : numbers_) ::close(number);
}

int pmi_descriptor(const std::vector<std::string>& environment) {
    uint64_t number = 0;
    return parse_number(value_in(environment, "PMI_FD"), INT32_MAX, number) ? static_cast<int>(number) : -1;
}

}  // namespace berth
