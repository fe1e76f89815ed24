#include "runtime/trust/keyring_file.hh"

#include <fcntl.h>

#include <charconv>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/private_folder.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"

namespace berth::trust {

namespace {

constexpr auto gpg_patience = std::chrono::seconds(20);
constexpr size_t keyring_limit = 16 << 20;

/// gpg in a home of its own, which goes with this object: nothing of the user's is read or changed.
class Gpg {
  public:
    Gpg() : home_("/tmp/berth-gpg", "for gpg") {
        for (const char* path : {"/usr/bin/gpg", "/usr/local/bin/gpg", "/bin/gpg"})
            if (program_.empty() && sys::may_access(path, X_OK)) program_ = path;
        if (program_.empty())
            throw Error("the program gpg, by which keyrings are read, is not on this node; install it");
    }
    /// What it prints. Throws Error naming `doing` where it fails.
    std::string run(std::vector<std::string> arguments, const std::string& doing) const {
        std::vector<std::string> all{"--homedir", home_.path(), "--batch", "--no-autostart", "--no-auto-check-trustdb"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LC_ALL=C"};
        ProgramAnswer answer = run_program(program_, all, "", gpg_patience, &environment);
        if (answer.code != 0) throw Error(cat(doing, ": ", why_it_failed(answer, gpg_patience)));
        return answer.output;
    }
    std::string file(std::string_view name, std::string_view content) const {
        std::string path = home_ / name;
        sys::write_all(sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600).get(), content, path);
        return path;
    }
    std::string exported(const std::string& doing) const {
        std::string path = home_ / "exported";
        run({"--output", path, "--export"}, doing);
        // It writes no file where there is no key.
        return sys::may_access(path, R_OK) ? sys::read_file(path, keyring_limit) : "";
    }

  private:
    PrivateFolder home_;
    std::string program_;
};

template <typename Number>
Number number(const std::string& text) {
    Number out = 0;
    std::from_chars(text.data(), text.data() + text.size(), out);
    return out;
}

}  // namespace

std::vector<KeyringEntry> keys_in(std::string_view packets) {
    std::vector<KeyringEntry> out;
    if (packets.empty()) return out;
    Gpg gpg;
    std::string lines = gpg.run({"--with-colons", "--show-keys", gpg.file("keys", packets)}, "reading a keyring");
    bool is_primary = false;
    // gnupg, doc/DETAILS: type, validity, bits, algorithm, key id, created; 10 is a fingerprint or a user id.
    for (const std::string& line : split(lines, '\n')) {
        std::vector<std::string> fields = split(line, ':');
        if (fields.size() < 10) continue;
        if (fields[0] == "pub") out.push_back({"", "", number<int64_t>(fields[5]), number<unsigned>(fields[2])});
        if (fields[0] == "pub" || fields[0] == "sub") is_primary = fields[0] == "pub";
        if (fields[0] == "fpr" && is_primary && !out.empty()) out.back().fingerprint = fields[9];
        if (fields[0] == "uid" && !out.empty() && out.back().name.empty()) out.back().name = fields[9];
    }
    return out;
}

std::string with_keys(std::string_view packets, std::string_view more) {
    Gpg gpg;
    if (keys_in(more).empty()) throw Error("importing keys: there is no public key in it");
    if (!packets.empty()) gpg.run({"--import", gpg.file("old", packets)}, "reading a keyring");
    gpg.run({"--import-options", "import-minimal", "--import", gpg.file("new", more)}, "importing keys");
    return gpg.exported("importing keys");
}

std::string without_key(std::string_view packets, const std::string& fingerprint) {
    std::string doing = cat("removing the key ", printable(fingerprint, 64));
    bool is_there = false;
    for (const KeyringEntry& key : keys_in(packets)) is_there = is_there || key.fingerprint == fingerprint;
    if (!is_there) throw Error(cat(doing, ": it is not in the keyring; apptainer key list shows those that are"));
    Gpg gpg;
    gpg.run({"--import", gpg.file("old", packets)}, "reading a keyring");
    gpg.run({"--yes", "--delete-keys", fingerprint}, doing);
    return gpg.exported(doing);
}

}  // namespace berth::trust
