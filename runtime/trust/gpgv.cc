#include "runtime/trust/gpgv.hh"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/private_folder.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"
#include "runtime/trust/signature/gpg.hh"

namespace berth::trust {

namespace {

constexpr size_t text_limit = 256 << 10;
constexpr auto patience = std::chrono::seconds(20);

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
    PrivateFolder folder("/tmp/berth-gpgv", "for gpgv");
    std::string keys;
    for (const std::string& keyring : keyrings) keys += keyring;
    write_file(folder / "keys.gpg", keys);
    write_file(folder / "message", message);
    std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LC_ALL=C", "GNUPGHOME=" + folder.path()};
    ProgramAnswer answer = run_program(program,
                                       {"--homedir", folder.path(), "--keyring", folder / "keys.gpg", "--status-fd",
                                        "1", "--output", folder / "text", folder / "message"},
                                       "", patience, &environment);
    std::string key = signer_of_status(answer.output, "the signature");
    if (answer.code != 0)
        throw Error(cat("the signature: gpgv ended with code ", answer.code, ": ", answer.complaint));
    return {sys::read_file(folder / "text", text_limit), key};
}

}  // namespace berth::trust
