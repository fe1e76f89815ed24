#include "runtime/pull/share/rendezvous.hh"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/random_word.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/own_program.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/pull/agreement/connect.hh"
#include "runtime/request/frozen.hh"

namespace berth::pull::share {

namespace {

constexpr const char* greeting = "berth-meeting-1";
constexpr size_t text_limit = 512;
constexpr auto patience = std::chrono::seconds(2);
/// Of finding a file, and of making one: others do the same at the same time.
constexpr unsigned tries = 3;

std::string port_of(const Fd& socket) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw SysError("asking for the port of the tracker of share.rendezvous");
    return std::to_string(ntohs(address.sin6_port));
}

}  // namespace

std::optional<MeetingPlace> parse_meeting(std::string_view text) {
    uint64_t port = 0;
    std::vector<std::string> words = split(std::string(trimmed(text)), ' ');
    bool is_meeting = text.size() <= text_limit && words.size() == 4 && words[0] == greeting && is_word(words[1]) &&
                      parse_number(words[2], 65535, port) && port != 0 && is_word(words[3]);
    if (!is_meeting) return std::nullopt;
    return MeetingPlace{words[1], words[2], words[3], "", 0};
}

std::string meeting_text(const MeetingPlace& place) {
    return cat(greeting, ' ', place.host, ' ', place.port, ' ', place.secret, '\n');
}

Rendezvous::Rendezvous(RendezvousSettings settings) : settings_(std::move(settings)) {
    open_folder();
    for (unsigned number = 0; number < tries; ++number)
        if (join()) return;
    throw Error(cat("meeting other pulls at ", printable(path(), 4096),
                    ": the file appears and goes again and again; remove it"));
}

Rendezvous::~Rendezvous() {
    if (is_ours_ && is_still_ours()) ::unlinkat(folder_.get(), settings_.image.hex().c_str(), 0);
}

/// Not where another pull has taken this one for dead, and its place.
bool Rendezvous::is_still_ours() const try {
    Fd file = sys::open_if_exists(folder_.get(), settings_.image.hex(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return file && sys::read_all(file.get(), text_limit, printable(path(), 4096)) == meeting_text(place_);
} catch (const Error&) {
    return false;
}

std::string Rendezvous::path() const { return cat(settings_.folder, "/", settings_.image.hex()); }

void Rendezvous::open_folder() {
    std::string what = cat("opening the folder of share.rendezvous, ", printable(settings_.folder, 4096));
    std::error_code problem;
    std::filesystem::path folder(settings_.folder);
    if (!std::filesystem::exists(folder, problem) && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        throw SysError(what);
    folder_ = sys::open_file(settings_.folder, O_RDONLY | O_DIRECTORY);
    struct stat found = sys::stat_of(folder_.get(), printable(settings_.folder, 4096));
    if (found.st_uid != ::geteuid() || (found.st_mode & 022) != 0)
        throw Error(cat(what, ": it must be the user's own, and nobody else may write there"));
}

/// False when another pull has been faster, or has just gone.
bool Rendezvous::join() {
    if (found()) return true;
    start_tracker();
    if (publish()) return true;
    tracker_.reset();
    return false;
}

/// Whether somebody answers at the place that the file names. One at which nobody does is of a pull that was killed.
bool Rendezvous::found() {
    Fd file = sys::open_if_exists(folder_.get(), settings_.image.hex(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file) return false;
    struct stat status = sys::stat_of(file.get(), printable(path(), 4096));
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
        throw Error(cat("meeting other pulls at ", printable(path(), 4096), ": it is not a file of the user's alone"));
    auto place = parse_meeting(sys::read_all(file.get(), text_limit, printable(path(), 4096)));
    if (place && connect_to(place->host, place->port, patience).socket) {
        place_ = *place;
        place_.node = settings_.node;
        return true;
    }
    ::unlinkat(folder_.get(), settings_.image.hex().c_str(), 0);
    return false;
}

void Rendezvous::start_tracker() {
    Fd listening = listen_at(0);
    if (!listening) throw Error("starting the tracker of share.rendezvous: no port is free");
    place_ = {settings_.address, port_of(listening), random_word(), settings_.node, 0};
    std::vector<std::string> environment = environment_of_this_process();
    environment.push_back(cat(plan::secret_variable, "=", place_.secret));
    // Nobody knows how many will come.
    tracker_ = std::make_unique<Child>(own_program_path(), std::vector<std::string>{"agree", "1"}, listening.get(), -1,
                                       &environment);
}

/// False when there is a file already.
bool Rendezvous::publish() {
    std::string name(settings_.image.hex()), unfinished = cat(".", name, ".", random_word());
    Fd file = sys::open_at(folder_.get(), unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    sys::write_all(file.get(), meeting_text(place_), printable(path(), 4096));
    file.reset();
    is_ours_ = ::linkat(folder_.get(), unfinished.c_str(), folder_.get(), name.c_str(), 0) == 0;
    int number = errno;
    ::unlinkat(folder_.get(), unfinished.c_str(), 0);
    if (!is_ours_ && number != EEXIST)
        throw SysError(cat("telling other pulls at ", printable(path(), 4096), " where this one is"), number);
    return is_ours_;
}

}  // namespace berth::pull::share
