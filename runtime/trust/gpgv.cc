#include "runtime/trust/gpgv.hh"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"
#include "runtime/trust/signature/gpg.hh"

namespace berth::trust {

namespace {

constexpr size_t text_limit = 256 << 10;
constexpr auto patience = std::chrono::seconds(20);
constexpr const char* folder_of_folders = "/tmp";

/// A private folder for gpgv, which goes with this object.
class Folder {
  public:
    Folder() : path_(cat(folder_of_folders, "/berth-gpgv-XXXXXX")) {
        if (::mkdtemp(path_.data()) == nullptr) throw SysError(cat("making a folder in ", folder_of_folders));
    }
    ~Folder() {
        try {
            Fd above = sys::open_file(folder_of_folders, O_RDONLY | O_DIRECTORY);
            sys::remove_tree(above.get(), path_.substr(path_.rfind('/') + 1), path_);
        } catch (const Error&) {
            // What stays has a key of the site's and a text that is public.
        }
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string file(const char* name) const { return cat(path_, "/", name); }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

void write_file(const std::string& path, std::string_view content) {
    Fd file = sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), content, path);
}

std::string gpgv_program() {
    for (const char* path : {"/usr/bin/gpgv", "/usr/local/bin/gpgv", "/bin/gpgv"})
        if (sys::may_access(path, X_OK)) return path;
    throw Error("the program gpgv, by which signatures of signedBy are checked, is not on this node; install it");
}

}  // namespace

Means::GpgText check_by_gpgv(const std::vector<std::string>& keyrings, const std::string& message) {
    std::string program = gpgv_program();
    Folder folder;
    std::string keys;
    for (const std::string& keyring : keyrings) keys += keyring;
    write_file(folder.file("keys.gpg"), keys);
    write_file(folder.file("message"), message);
    std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LC_ALL=C", "GNUPGHOME=" + folder.path()};
    ProgramAnswer answer = run_program(program,
                                       {"--homedir", folder.path(), "--keyring", folder.file("keys.gpg"), "--status-fd",
                                        "1", "--output", folder.file("text"), folder.file("message")},
                                       "", patience, &environment);
    std::string key = signer_of_status(answer.output, "the signature");
    if (answer.code != 0)
        throw Error(cat("the signature: gpgv ended with code ", answer.code, ": ", answer.complaint));
    return {sys::read_file(folder.file("text"), text_limit), key};
}

}  // namespace berth::trust
