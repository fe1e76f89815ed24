#include "runtime/apptainer/start.hh"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "runtime/apptainer/binds.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/edit_list.hh"
#include "runtime/request/mounts.hh"

namespace berth::apptainer {

namespace {

/// Folders that a container has of its own, whatever the caller's working directory is.
constexpr const char* systems[] = {"/",    "/bin", "/etc", "/lib", "/lib64", "/mnt",
                                   "/opt", "/sbin", "/usr", "/var", "/dev",   "/sys"};

bool is_below(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder == "/" ? folder : folder + "/");
}

std::string absolute(const std::string& path, const Place& place) {
    return plan::normalised(path.starts_with('/') ? path : path_from(place.cwd, path));
}

std::string last(const Given& given, std::string_view name) {
    auto found = given.find(name);
    return found == given.end() || found->second.empty() ? std::string() : found->second.back();
}

std::vector<std::string> listed(const Given& given, std::string_view name) {
    std::vector<std::string> out;
    if (auto found = given.find(name); found != given.end())
        for (const std::string& text : found->second)
            for (const std::string& field : csv_fields(text))
                if (!trimmed(field).empty()) out.emplace_back(trimmed(field));
    return out;
}

/// Makes a Start of what was given, a part after the other.
class Translator {
  public:
    Translator(const Given& given, const Place& place) : given_(given), place_(place) {
        bool all = has("containall") || has("compat");
        contain_ = all || has("contain");
        root_ = has("fakeroot");
        skipped_ = listed(given_, "no-mount");
        start_.request.unshare.pid = (all || has("pid")) && !has("no-pid");
        start_.request.unshare.ipc = all || has("ipc");
    }

    Start run() {
        check_skipped();
        take_root();
        take_home();
        take_temporary();
        // The user's own come after what is mounted by default.
        take_cwd();
        take_scratch();
        take_binds();
        take_namespaces();
        take_devices();
        take_app();
        take_name_servers();
        take_joining();
        start_.plain_umask = has("no-umask") || has("compat");
        if (has("disable-cache"))
            start_.warnings.emplace_back(
                "--disable-cache: an image of a registry is kept in Berth's store all the same");
        return std::move(start_);
    }

  private:
    bool has(std::string_view name) const { return given_.contains(name); }
    bool skips(const char* what) const {
        return std::find(skipped_.begin(), skipped_.end(), what) != skipped_.end();
    }

    void mount(const std::string& source, const std::string& target) {
        plan::MountRequest one;
        one.source = source;
        one.target = target;
        start_.request.mounts.push_back(std::move(one));
    }

    void mount_unasked(const std::string& path, bool optional) {
        plan::MountRequest one;
        one.source = one.target = path;
        one.optional = optional;
        start_.unasked.push_back(std::move(one));
    }

    void mount_empty(const std::string& target) {
        has_memory_ = true;
        plan::MountRequest one;
        one.kind = plan::MountRequest::Kind::tmpfs;
        one.target = target;
        // Programs look at who may write to a home.
        if (target == start_.home) one.options = {{"mode", "0750"}};
        start_.request.mounts.push_back(std::move(one));
    }

    /// A folder of --workdir where there is one, else memory.
    void mount_own(const std::string& name, const std::string& target) {
        if (!has("workdir")) return mount_empty(target);
        std::string folder = cat(absolute(last(given_, "workdir"), place_), "/", name);
        start_.folders.push_back(folder);
        mount(folder, target);
    }

    void check_skipped() {
        for (const std::string& word : skipped_) {
            if (word.starts_with('/')) start_.left_out.push_back(plan::normalised(word));
            if (word.starts_with('/')) continue;
            if (word == "bind-paths") start_.left_out.insert(start_.left_out.end(), {"/etc/hosts", "/etc/localtime"});
            for (const char* system : {"proc", "sys", "dev", "devpts"})
                if (word == system)
                    throw Error(cat("--no-mount ", word, ": a container has these in any case; what they show of the "
                                    "node is less than with Apptainer"));
            const char* known[] = {"home", "tmp", "cwd", "hostfs", "bind-paths"};
            if (std::find(std::begin(known), std::end(known), word) == std::end(known))
                throw Error(cat("--no-mount ", printable(word, 4096), ": write home, tmp, cwd, hostfs, bind-paths, or "
                                "the path of a file that is mounted, such as /etc/hosts"));
        }
    }

    void take_root() {
        bool tmpfs = has("writable-tmpfs") || has("compat");
        std::vector<OverlayGiven> overlays;
        for (const std::string& text : listed(given_, "overlay")) {
            overlays.push_back(overlay_given(text));
            overlays.back().path = absolute(overlays.back().path, place_);
        }
        start_.overlays = overlays_of(overlays, place_.find);
        bool takes_writes = !start_.overlays.writable.empty();
        if (has("writable-tmpfs") && takes_writes)
            throw Error("--writable-tmpfs goes not with --overlay FOLDER; write one of them, or FOLDER:ro");
        if (has("writable") && (has("writable-tmpfs") || !overlays.empty()))
            throw Error("--writable goes with neither --writable-tmpfs nor --overlay; write one of them");
        start_.in_place = has("writable");
        start_.request.writable = tmpfs || start_.in_place || takes_writes;
        start_.request.remap_root = root_;
        start_.request.entrypoint = false;
    }

    void take_home() {
        std::string text = last(given_, "home"), account = root_ ? "/root" : place_.home.empty() ? "/" : place_.home;
        std::vector<std::string> parts = split(text, ':');
        if (parts.size() > 2) throw Error(cat("--home ", printable(text, 4096), ": write SRC or SRC:DST"));
        std::string source = text.empty() ? place_.home : absolute(parts[0], place_);
        start_.home = text.empty() ? account : parts.size() == 2 ? parts[1] : source;
        if (!start_.home.starts_with('/'))
            throw Error(
                cat("--home ", printable(text, 4096), ": the home in the container is to be absolute; write SRC:/DST"));
        start_.home = plan::normalised(start_.home);
        start_.request.mount_home = false;
        if (has("no-home") || skips("home") || start_.home == "/") return;
        if (!text.empty())
            mount(source, start_.home);
        else if (contain_)
            mount_own("home", start_.home);
        else if (!source.empty())
            start_.request.mount_home = true;
        if (!contain_ || !text.empty()) visible_.push_back({source, start_.home});
    }

    void take_temporary() {
        if (skips("tmp")) return;
        // In images in which /var/tmp is a link to /tmp the second one covers the first.
        for (const auto& [target, name] : {std::pair("/var/tmp", "var_tmp"), std::pair("/tmp", "tmp")}) {
            if (contain_) {
                mount_own(name, target);
            } else {
                mount_unasked(target, true);
                visible_.push_back({target, target});
            }
        }
    }

    bool is_visible(const std::string& path) const {
        return std::any_of(visible_.begin(), visible_.end(),
                           [&](const auto& one) { return one.first == one.second && is_below(path, one.first); });
    }

    /// Whether another folder is mounted where the node has it.
    bool is_hidden(const std::string& path) const {
        return std::any_of(visible_.begin(), visible_.end(),
                           [&](const auto& one) { return one.first != one.second && is_below(path, one.second); });
    }

    void take_cwd() {
        std::string asked = last(given_, "cwd");
        if (asked.empty()) asked = last(given_, "pwd");
        start_.workdir_asked = !asked.empty();
        bool kernels = is_below(place_.cwd, "/proc") || is_below(place_.cwd, "/sys") || is_below(place_.cwd, "/dev");
        bool system = std::find(std::begin(systems), std::end(systems), place_.cwd) != std::end(systems);
        bool mounted = is_visible(place_.cwd), hidden = !mounted && is_hidden(place_.cwd);
        if (!contain_ && !skips("cwd") && !kernels && !system && !mounted && !hidden) {
            mount_unasked(place_.cwd, false);
            mounted = true;
        }
        bool stays = mounted || (!contain_ && system);
        start_.request.workdir = start_.workdir_asked ? asked : stays ? place_.cwd : start_.home;
    }

    void take_scratch() {
        for (const std::string& text : listed(given_, "scratch")) {
            std::string target = plan::normalised(text.starts_with('/') ? text : "/" + text);
            mount_own("scratch" + target, target);
        }
    }

    void take_binds() {
        std::string targets;
        auto add = [&](Bind one) {
            one.mount.source = absolute(one.mount.source, place_);
            if (!one.mount.target.starts_with('/')) one.mount.target = absolute(one.mount.target, place_);
            if (one.nested) targets += cat(targets.empty() ? "" : ",", one.mount.target);
            start_.request.mounts.push_back(std::move(one.mount));
        };
        if (auto texts = given_.find("bind"); texts != given_.end())
            for (const std::string& text : texts->second)
                for (Bind& one : binds_of(text)) add(std::move(one));
        if (auto texts = given_.find("mount"); texts != given_.end())
            for (const std::string& text : texts->second)
                for (Bind& one : binds_of_mount(text)) add(std::move(one));
        set_both("BIND", targets);
    }

    void take_namespaces() {
        std::string network = last(given_, "network");
        bool none = network == "none", net = has("net") || none;
        if (net && !none && !(network.empty() && root_))
            throw Error(cat(network.empty() ? "--net" : cat("--network ", printable(network)),
                            ": networks of CNI need root; write --net --network none, or neither for the node's"));
        if (!network.empty() && !none && network != "host")
            throw Error(cat("--network ", printable(network),
                            ": networks of CNI need root; write none, or leave it out for the node's"));
        start_.request.unshare.net = net;
        start_.hostname = last(given_, "hostname");
        start_.request.unshare.uts = has("uts") || !start_.hostname.empty();
    }

    void take_devices() {
        start_.request.devices = listed(given_, "device");
        if (has("nv") || has("nvccli")) {
            start_.devices.emplace_back("NVIDIA_VISIBLE_DEVICES=all");
            start_.devices.emplace_back("NVIDIA_DRIVER_CAPABILITIES=all");
        }
        if (has("no-nv")) start_.devices = {"NVIDIA_VISIBLE_DEVICES=void"};
        if (has("rocm") || has("no-rocm"))
            start_.devices.emplace_back(has("no-rocm") ? "AMD_VISIBLE_DEVICES=void" : "AMD_VISIBLE_DEVICES=all");
    }

    void take_app() {
        if (!has("app")) return;
        start_.app = last(given_, "app");
        auto fits = [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
        };
        if (start_.app.empty() || start_.app[0] == '.' || !std::all_of(start_.app.begin(), start_.app.end(), fits))
            throw Error(cat("--app ", printable(start_.app),
                            ": names of apps have letters, digits, - _ . only; apptainer exec IMAGE ls /scif/apps "
                            "lists those of an image"));
        set_both("APPNAME", start_.app);
    }

    /// A file in memory over /etc/resolv.conf, whatever the image has there.
    void take_name_servers() {
        if (!has("dns")) return;
        std::string content;
        for (const std::string& field : split(last(given_, "dns"), ',')) {
            std::string server(trimmed(field));
            unsigned char address[sizeof(in6_addr)];
            if (::inet_pton(AF_INET, server.c_str(), address) != 1 &&
                ::inet_pton(AF_INET6, server.c_str(), address) != 1)
                throw Error(cat("--dns ", printable(last(given_, "dns"), 1024), ": write addresses with commas between "
                                "them, as 192.0.2.1,2001:db8::1"));
            content += cat("nameserver ", server, "\n");
        }
        constexpr const char* file = "/run/berth-resolv.conf";
        plan::EditList edits(start_.edits);
        plan::Origin origin = plan::Origin::of_site("option --dns");
        edits.add(plan::DropIn{file, content}, origin, "name servers");
        plan::Mount& mount = edits.bind(file, "/etc/resolv.conf", origin, "name servers");
        mount.inside = mount.read_only = true;
        mount.create = plan::Mount::Create::file;
    }

    /// What each would find of the others in a common container that it would not find in one of its own.
    void take_joining() {
        const plan::Request& request = start_.request;
        bool in_memory = request.writable == true && start_.overlays.writable.empty() && !start_.in_place;
        bool of_its_own = in_memory || has_memory_ || (skips("tmp") && !contain_);
        start_.join_asked = has("sharens");
        start_.joins = start_.join_asked || (!of_its_own && request.unshare == plan::OwnNamespaces{});
    }

    void set_both(const char* name, const std::string& value) {
        for (const char* prefix : {"APPTAINER_", "SINGULARITY_"}) start_.set.push_back(cat(prefix, name, "=", value));
    }

    const Given& given_;
    const Place& place_;
    std::vector<std::string> skipped_;
    std::vector<std::pair<std::string, std::string>> visible_;  ///< of the node: source and target
    bool contain_ = false, root_ = false;
    bool has_memory_ = false;  ///< folders that are gone with the container
    Start start_;
};

constexpr const char* prompt = "Apptainer> ";

std::string last_part(const std::string& path) {
    size_t end = path.find_last_not_of('/');
    if (end == path.npos) return path;
    std::string whole = path.substr(0, end + 1);
    return whole.substr(whole.rfind('/') + 1);
}

}  // namespace

const char* word_of(Action action) {
    switch (action) {
    case Action::exec: return "exec";
    case Action::run: return "run";
    case Action::shell: return "shell";
    case Action::test: return "test";
    case Action::start: return "start";
    }
    return "";
}

std::string image_of(const std::string& image) {
    auto refuse = [&](const char* why) { throw Error(cat(printable(image, 4096), ": ", why)); };
    if (image.starts_with("docker://") || image.starts_with("oci:") || image.starts_with("oci-archive:") ||
        image.starts_with("docker-archive:"))
        return image;
    if (constexpr std::string_view daemon = "docker-daemon:"; image.starts_with(daemon))
        return "dockerd://" + image.substr(daemon.size() + (image.substr(daemon.size()).starts_with("//") ? 2 : 0));
    if (image.starts_with("library://"))
        refuse("images of a library are not fetched; push the image to a registry and write docker://, or name a file");
    if (image.starts_with("shub://"))
        refuse("images of Singularity Hub are not fetched; name a file, or docker://IMAGE");
    if (!artifact_of(image).empty()) return image;
    if (image.starts_with("oras:"))
        refuse("write oras://REGISTRY/NAME:TAG");
    if (image.starts_with("http://") || image.starts_with("https://") || image.starts_with("ipfs://"))
        refuse("files are not fetched here; fetch it with curl or the like, and name the file");
    if (image.starts_with("instance://"))
        refuse("starting an instance from another is not allowed; exec, run, shell and test take one that runs");
    if (image.empty()) refuse("the name of the image is empty");
    bool is_path = image.starts_with('/') || image.starts_with("./") || image.starts_with("../");
    return is_path ? image : "./" + image;
}

std::string instance_of(const std::string& image) {
    constexpr std::string_view scheme = "instance://";
    return image.starts_with(scheme) ? image.substr(scheme.size()) : std::string();
}

std::string artifact_of(const std::string& image) {
    constexpr std::string_view scheme = "oras://";
    return image.starts_with(scheme) ? image.substr(scheme.size()) : std::string();
}

bool is_file(const std::string& image) {
    std::string text = image_of(image);
    return text.starts_with('/') || text.starts_with('.');
}

std::string places_asked_for(const std::vector<std::string>& environment, bool with_tmpdir) {
    std::string out;
    for (const char* name : {"CACHEDIR", "TMPDIR"})
        for (const char* prefix : {"APPTAINER_", "SINGULARITY_"}) {
            std::string variable = cat(prefix, name);
            if (value_in(environment, variable).empty()) continue;
            out += cat(out.empty() ? "" : ", ", variable);
            if (name == std::string_view("TMPDIR")) with_tmpdir = false;
        }
    // The variable stands for the flag.
    return !with_tmpdir ? out : cat(out, out.empty() ? "" : ", ", "--tmpdir");
}

Start start_of(Action action, const std::string& image, const Given& given, const Place& place) {
    refuse_flags(given, is_file(image));
    Start out = Translator(given, place).run();
    out.image = image_of(image);
    out.request.entrypoint = action == Action::run && out.app.empty();
    bool file = is_file(image);
    if (out.in_place && !file) throw Error(cat("--writable: ", printable(image, 4096), " is no directory of the node"));
    auto set_both = [&](const char* name, const std::string& value) {
        for (const char* prefix : {"APPTAINER_", "SINGULARITY_"}) out.set.push_back(cat(prefix, name, "=", value));
    };
    std::string path = file ? absolute(image, place) : image;
    set_both("CONTAINER", path);
    set_both("NAME", last_part(path));
    out.set.push_back(cat("APPTAINER_COMMAND=", word_of(action)));
    set_both("ENVIRONMENT", "/.singularity.d/env/91-environment.sh");
    out.set.push_back(cat("HOME=", out.home));
    out.set.push_back(cat("PS1=", prompt));
    out.set.push_back(cat("PROMPT_COMMAND=PS1=\"", prompt, "\"; unset PROMPT_COMMAND"));
    if (given.contains("cleanenv") || given.contains("containall") || given.contains("compat"))
        out.set.emplace_back("LANG=C");
    out.set.insert(out.set.end(), out.devices.begin(), out.devices.end());
    return out;
}

std::string shown_at(const Start& start, const std::string& path) {
    std::string out;
    for (const auto* mounts : {&start.unasked, &start.request.mounts})
        for (const plan::MountRequest& one : *mounts) {
            if (!is_below(path, one.target)) continue;
            bool of_node = one.kind == plan::MountRequest::Kind::bind;
            out = of_node ? one.source + path.substr(one.target == "/" ? 0 : one.target.size()) : "";
        }
    return out;
}

}  // namespace berth::apptainer
