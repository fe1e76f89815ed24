// The store's pins: which images named containers are made of. A pin is a small file, so that it lasts when nothing
// runs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"
#include "runtime/store/store.hh"

namespace berth::store {

namespace {

constexpr size_t pin_limit = 8192;

std::string this_host() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    return name;
}

/// The file of a pin: the host, a line end, the holder's path; another release may add lines.
struct Pin {
    std::string file, host, holder;

    bool here() const { return host == this_host(); }
    bool gone() const { return here() && ::access(holder.c_str(), F_OK) != 0 && errno == ENOENT; }
};

/// Of the store at `path`.
std::vector<Pin> pins_in(int folder, const std::string& path, const std::string& prefix) {
    std::vector<Pin> out;
    for (const std::string& name : sys::list_directory(folder, printable(path + "/pins", 4096))) {
        if (!name.starts_with(prefix)) continue;
        Fd file = sys::open_if_exists(folder, name, O_RDONLY | O_NOFOLLOW);
        std::string text = file ? sys::read_all(file.get(), pin_limit, "a pin of the store") : "";
        // An empty one is being written, or was when its writer was killed.
        if (size_t end = text.find('\n'); end != text.npos)
            out.push_back({name, text.substr(0, end), text.substr(end + 1, text.find('\n', end + 1) - end - 1)});
    }
    return out;
}

}  // namespace

void Store::pin(const Digest& digest, const std::string& holder) const {
    try {
        Fd folder = directory("pins");
        for (const Pin& pin : pins_in(folder.get(), path(), digest.hex() + "."))
            if (pin.here() && pin.holder == holder) return;
        publish_text(cat(this_host(), "\n", holder), "pins", cat(digest.hex(), ".", scratch_name()));
    } catch (const SysError&) {
        // A store that others look after: they decide what stays, and a digest can be pulled again.
    }
}

void Store::unpin(const Digest& digest, const std::string& holder) const {
    Fd folder = directory("pins");
    for (const Pin& pin : pins_in(folder.get(), path(), digest.hex() + "."))
        if (pin.here() && pin.holder == holder) ::unlinkat(folder.get(), pin.file.c_str(), 0);
}

std::vector<std::string> Store::pin_holders(const Digest& digest) const {
    std::vector<std::string> out;
    for (const Pin& pin : pins_in(directory("pins").get(), path(), digest.hex() + "."))
        if (!pin.gone()) out.push_back(pin.here() ? pin.holder : cat(pin.holder, " on ", pin.host));
    return out;
}

void Store::sweep_pins() const {
    Fd folder = directory("pins");
    for (const Pin& pin : pins_in(folder.get(), path(), ""))
        if (pin.gone()) ::unlinkat(folder.get(), pin.file.c_str(), 0);
}

}  // namespace berth::store
