#include "runtime/step/address.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth {

namespace {

Fd new_socket() {
    Fd out(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!out) throw SysError("making the socket of a step");
    return out;
}

/// By way of the descriptor: a server's root is its container's, and an address is at most 108 bytes.
sockaddr_un address_of(const Fd& folder, const std::string& name) {
    std::string path = cat("/proc/self/fd/", folder.get(), "/", name);
    sockaddr_un out{};
    out.sun_family = AF_UNIX;
    if (path.size() >= sizeof out.sun_path)
        throw Error(cat("making the socket ", name, " of a step: the node's name is too long"));
    std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
    return out;
}

}  // namespace

StepAddress::StepAddress(const std::string& folder, const std::string& node, const std::string& step)
    : path_(folder), folder_(sys::open_file(path_, O_RDONLY | O_DIRECTORY)), name_(cat(node, ".", step)) {}

StepAddress::~StepAddress() {
    if (listens_) ::unlinkat(folder_.get(), name_.c_str(), 0);
}

Fd StepAddress::listen() {
    Fd out = new_socket();
    ::unlinkat(folder_.get(), name_.c_str(), 0);
    sockaddr_un address = address_of(folder_, name_);
    if (::bind(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(out.get(), 128) != 0)
        throw SysError(cat("making the socket ", path_, "/", name_, " by which other steps join"));
    listens_ = true;
    return out;
}

Fd StepAddress::connect() const {
    Fd out = new_socket();
    sockaddr_un address = address_of(folder_, name_);
    auto connected = [&] { return ::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address); };
    return sys::uninterrupted(connected) == 0 ? std::move(out) : Fd();
}

std::vector<std::string> steps_with_address(const std::string& folder, const std::string& node,
                                            const std::string& job) {
    std::vector<std::string> out;
    Fd opened = sys::open_if_exists(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    if (!opened) return out;
    const std::string before = cat(node, ".");
    for (const std::string& name : sys::list_directory(opened.get(), folder)) {
        if (!name.starts_with(before)) continue;
        std::string step = name.substr(before.size());
        if (plan::is_step_name(step) && step.starts_with(job + ".")) out.push_back(step);
    }
    return out;
}

}  // namespace berth
