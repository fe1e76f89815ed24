#include "runtime/host/addresses.hh"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <fstream>
#include <memory>

#include "runtime/base/error.hh"

namespace berth {

namespace {

struct Free {
    void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

/// Empty for another family, and for a link-local address.
std::string text_of(const sockaddr* address) {
    char out[INET6_ADDRSTRLEN] = "";
    if (address == nullptr) return {};
    if (address->sa_family == AF_INET)
        ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, out, sizeof out);
    if (address->sa_family != AF_INET6) return out;
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) ::inet_ntop(AF_INET6, &six, out, sizeof out);
    return out;
}

/// What the kernel tells of an interface in a file; 0 for what it does not tell, which is -1 in some of them.
uint64_t number_in(const std::string& classes, const char* interface, const char* file) {
    int64_t out = 0;
    std::ifstream(classes + "/" + interface + "/" + file) >> out;
    return out > 0 ? static_cast<uint64_t>(out) : 0;
}

}  // namespace

std::vector<LocalAddress> local_addresses(const std::string& classes) {
    ifaddrs* found = nullptr;
    if (::getifaddrs(&found) != 0) throw SysError("listing this machine's addresses");
    std::unique_ptr<ifaddrs, Free> list(found);
    std::vector<LocalAddress> out;
    for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next)
        if (std::string text = text_of(one->ifa_addr); (one->ifa_flags & IFF_UP) != 0 && !text.empty())
            out.push_back({one->ifa_name, text, static_cast<unsigned>(number_in(classes, one->ifa_name, "mtu")),
                           number_in(classes, one->ifa_name, "speed")});
    return out;
}

uint64_t link_speed(const std::string& address, const std::string& classes) {
    for (const LocalAddress& one : local_addresses(classes))
        if (one.address == address) return one.speed;
    return 0;
}

std::vector<std::string> addresses_of_this_machine() {
    std::vector<std::string> out;
    for (const LocalAddress& one : local_addresses()) out.push_back(one.address);
    return out;
}

}  // namespace berth
