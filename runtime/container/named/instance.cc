#include "runtime/container/named/instance.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/records.hh"
#include "runtime/sandbox/processes.hh"

namespace berth {

namespace {

constexpr const char* record_file = "/instance";
constexpr size_t instance_limit = 8 << 20;
constexpr const char* heading_of_instance = "berth-instance 1\n";

bool is_gone(const SysError& error) {
    return error.number() == ENOENT;
}

}  // namespace

pid_t parent_of(pid_t process) try {
    // The name, in brackets, may have any sign in it.
    std::string text = sys::read_file(cat("/proc/", process, "/stat"));
    std::vector<std::string> words = split(text.substr(std::min(text.rfind(')'), text.size())), ' ');
    uint64_t parent = 0;
    return words.size() > 2 && parse_number(words[2], INT32_MAX, parent) ? static_cast<pid_t>(parent) : 0;
} catch (const Error&) {
    return 0;
}

std::string instance_text(const InstanceRecord& record) {
    std::string out = heading_of_instance;
    auto add = [&](const char* key, const std::string& value) { plan::add_record(out, key, value); };
    add("name", record.name);
    add("keeper", cat(record.keeper));
    add("image", record.image);
    add("out", record.out);
    add("err", record.err);
    add("home", record.home);
    for (const std::string& word : record.entrypoint) add("entrypoint", word);
    for (const std::string& word : record.cmd) add("cmd", word);
    if (record.has_scripts) add("scripts", "yes");
    return out;
}

InstanceRecord parse_instance(std::string_view text, const std::string& what) {
    if (!text.starts_with(heading_of_instance))
        throw Error(cat("reading ", what, ": its record has another form; end it by the berth that has started it"));
    text.remove_prefix(std::string_view(heading_of_instance).size());
    InstanceRecord out;
    while (!text.empty()) {
        auto record = plan::take_record(text, instance_limit);
        if (!record) break;
        std::string value(record->value);
        uint64_t number = 0;
        if (record->key == "name") out.name = value;
        if (record->key == "keeper" && parse_number(value, INT32_MAX, number)) out.keeper = static_cast<pid_t>(number);
        if (record->key == "image") out.image = value;
        if (record->key == "out") out.out = value;
        if (record->key == "err") out.err = value;
        if (record->key == "home") out.home = value;
        if (record->key == "entrypoint") out.entrypoint.push_back(value);
        if (record->key == "cmd") out.cmd.push_back(value);
        if (record->key == "scripts") out.has_scripts = true;
    }
    if (out.name.empty() || out.keeper <= 0) throw Error(cat("reading ", what, ": its record is cut short"));
    return out;
}

void check_instance_name(const std::string& name) {
    auto fits = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
    constexpr size_t longest = 200;
    if (name.empty() || name.size() > longest || name == "." || name == ".." || name[0] == '-' ||
        !std::all_of(name.begin(), name.end(), fits))
        throw Error(cat(printable(name, 1024), " is not a valid instance name: use letters, digits and . _ -"));
}

std::optional<InstanceRecord> find_instance(const ContainerFolder& folder, const std::string& name) {
    check_instance_name(name);
    if (!folder.connect(name)) return std::nullopt;
    try {
        std::string what = cat("instance ", name);
        Fd file = sys::open_file(folder.path_of(name) + record_file, O_RDONLY | O_NOFOLLOW);
        InstanceRecord out = parse_instance(sys::read_all(file.get(), instance_limit, what), what);
        // Its helper is about to end with it.
        if (::kill(out.keeper, 0) != 0 && errno == ESRCH) return std::nullopt;
        return out;
    } catch (const SysError& error) {
        if (is_gone(error)) return std::nullopt;
        throw;
    }
}

std::vector<InstanceRecord> all_instances(const ContainerFolder& folder) {
    std::vector<std::string> names = folder.names();
    std::sort(names.begin(), names.end());
    std::vector<InstanceRecord> out;
    for (const std::string& name : names) {
        auto record = find_instance(folder, name);
        if (!record) forget_instance(folder, name);
        if (record) out.push_back(std::move(*record));
    }
    return out;
}

void forget_instance(const ContainerFolder& folder, const std::string& name) {
    Lock lock = folder.lock(name);
    if (find_instance(folder, name)) return;
    try {
        // Its folder goes with it where it ends as it should.
        if (!lock_after_last_run(folder, name)) return;
    } catch (const SysError& error) {
        if (!is_gone(error)) throw;
    }
    folder.remove(name);
}

std::vector<pid_t> processes_of_instance(const InstanceRecord& record, ino_t user_namespace, pid_t helper) {
    std::map<pid_t, pid_t> parents;
    auto parent = [&](pid_t process) {
        auto [known, is_new] = parents.try_emplace(process, 0);
        if (is_new) known->second = parent_of(process);
        return known->second;
    };
    Fd proc = sys::open_file("/proc", O_RDONLY | O_DIRECTORY);
    std::vector<pid_t> out = sandbox::inhabitants(proc.get(), user_namespace);
    std::erase_if(out, [&](pid_t process) {
        // The helper's children are the first process of a pid namespace, which takes orphans, and others of Berth's.
        if (process == helper || parent(process) == helper) return true;
        for (pid_t at = parent(process); at > 1; at = parent(at))
            if (at == record.keeper || at == helper) return false;
        return true;
    });
    return out;
}

void send_to(const std::vector<pid_t>& processes, int signal) {
    for (pid_t process : processes) ::kill(process, signal);
}

pid_t helper_at(const Fd& connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

}  // namespace berth
