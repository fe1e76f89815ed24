// The settings of a site: what berth.conf, and the variables over it, come to. A struct a section; a member is called
// as its key. The defaults here are the documented ones.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/words.hh"
#include "runtime/request/mount_request.hh"

namespace berth::plan {

struct StoreSettings {
    std::string path = "/var/lib/berth/%U";  ///< see path_for()
    PullPolicy pull = PullPolicy::newer;
    StartPolicy start = StartPolicy::complete;
    unsigned fresh_for = 60;  ///< seconds for which `berth run` takes what a registry has said of a tag
    LayerCodec compression = LayerCodec::zstd;
    unsigned compression_level = 0;  ///< as the codec counts; 0: what suits a pull
    std::vector<std::string> shared;      ///< folders of the stores that the site offers to all users
    std::string shared_owner = "root";    ///< name or uid of the account whose they are
};

/// Of named containers.
struct DataSettings {
    std::string path = "/var/lib/berth/%U.containers";
};

/// What holds when a user says nothing.
struct DefaultSettings {
    bool remap_root = false;
    bool mount_home = false;
    bool writable = true;
    bool entrypoint = false;
    ContainerScope container_scope = ContainerScope::global;
    std::vector<std::string> unshare;  ///< namespaces of a container's own: "ipc", "pid", "uts", "cgroup"
    Home home = Home::empty;           ///< what is made where no home is mounted
    Propagation mount_propagation = Propagation::slave;  ///< of binds that say nothing else
};

/// A mount that the node's files name besides berth.conf (site.enroot_config).
struct FoundMount {
    MountRequest mount;
    std::string origin;   ///< "site.enroot_config, FILE:LINE"
    bool of_job = false;  ///< a variable of the job says where its source lies
};

/// What every container gets, besides what its user asks for.
struct SiteSettings {
    std::vector<std::string> mounts;       ///< as in --container-mounts, with %U %u %j %s %n in paths
    std::vector<std::string> environment;  ///< NAME=VALUE, in place of the image's
    std::vector<std::string> environment_defaults;  ///< NAME=VALUE, where the image has none
    std::string enroot_config;                      ///< folder with environ.d and mounts.d; empty: none is read
    std::string environments = "/etc/berth/environments";  ///< folder of --container-environment; empty: none
    std::vector<FoundMount> found_mounts;           ///< of that folder, once it has been read: no key
};

/// Where logins lie, and what their files may say.
struct LoginSettings {
    std::string auth_path;       ///< folder of .credentials, for who has no ENROOT_CONFIG_PATH; ~ is the home
    bool auth_commands = false;  ///< $(command) in .credentials
};

/// Sizes are in bytes. Where 0 is no limit of the kernel's, it is none.
struct LimitSettings {
    uint64_t tmpfs_size = 0;              ///< of the writable layer; 0: the kernel's default, half of memory
    unsigned stall_time = 600;            ///< seconds that a read waits for a part of an image that does not come
    uint64_t fetch_rate = 0;              ///< a second, of an image that has started; not of what is waited for
    uint64_t store_size = 0;              ///< that the store may keep after a pull
    unsigned store_age = 0;               ///< days without use after which an image is removed; 0: never
    uint64_t pull_memory = 128ULL << 20;  ///< that a pull may take
    uint64_t image_size = 0;              ///< that an image's layers may have, packed
    unsigned pull_time = 0;               ///< seconds that a pull may take
};

/// What users may do; "*" in a list is everything or everybody. See plan/policy.hh.
struct PolicySettings {
    std::vector<std::string> registries_allowed = {"*"};
    std::vector<std::string> registries_denied;
    bool digest_required = false;
    std::string signatures;           ///< file of the form of containers-policy.json(5); empty: none is wanted
    bool signatures_unnamed = false;  ///< sigstore bundles that name no image count for the one that was asked for
    std::vector<std::string> mount_sources = {"*"};
    std::vector<std::string> image_paths = {"*"};
    std::vector<std::string> image_owners = {"*"};  ///< users, by name or number
    std::vector<std::string> remap_root = {"*"};  ///< users, and groups as "@GROUP"
    std::vector<std::string> writable = {"*"};    ///< the same
    std::vector<std::string> locked;              ///< keys, or whole sections, that variables may not change
    std::vector<std::string> unlocked;            ///< keys that are locked else (see Key::locked), and now are not
};

struct SlurmSettings {
    TagResolver resolve_tags = TagResolver::submit;
    UnknownImage unknown_image = UnknownImage::warn;
    bool client_in_container = false;       ///< Slurm's own commands work in containers
    std::vector<std::string> client_files;  ///< and what they need there besides what berth finds by itself
};

struct SecuritySettings {
    Seccomp seccomp = Seccomp::built_in;
    std::vector<std::string> seccomp_allow;  ///< system calls of the built-in list that are not refused after all
    std::vector<std::string> seccomp_deny;   ///< and those that are refused besides
    bool fake_chown = true;  ///< changes of owner that cannot be made are answered as if they had been
    Nested nested = Nested::on_request;
    RootCapabilities root_capabilities = RootCapabilities::files;
    bool mask = true;                        ///< hide what masked_paths() has, and protect read_only_paths()
};

struct DeviceSettings {
    NvidiaMode nvidia = NvidiaMode::automatic;
    std::string driver_root = "/";  ///< where the NVIDIA driver's libraries and programs lie
    std::string device_root = "/";  ///< where the folder dev with its nodes lies
    RdmaMode rdma = RdmaMode::automatic;
    bool rdma_userspace = false;   ///< the node's verbs libraries in place of the image's
    bool fuse = false;     ///< /dev/fuse, when the user may open it
    bool restricted = true;  ///< /dev has the named devices alone; else it is the node's
    std::vector<std::string> disabled;  ///< device families that no container gets, by the vendor of their maker
    std::vector<std::string> cdi;  ///< CDI devices that every container gets: "vendor.com/class=name"
    /// of their descriptions; a later one counts more
    std::vector<std::string> cdi_folders = {"/etc/cdi", "/var/run/cdi"};
};

/// The node's MPI in place of the image's. Paths are absolute; the last component may be a pattern (glob(7)).
struct MpiSettings {
    bool replace = false;
    MpiCheck check = MpiCheck::interface;
    std::vector<std::string> libraries;     ///< that take the place of the image's of the same SONAME
    std::vector<std::string> dependencies;  ///< and what these need of the node
    std::vector<std::string> mounts;        ///< files and directories of the node that come with them, at the same path
};

struct EventSettings {
    std::string log;       ///< of starts, pulls and failures: a file (see path_for()), "syslog", or empty: none
    std::string counters;  ///< the folder of the users' files of counters; empty: nothing is counted
};

/// Programs of the site.
struct HookSettings {
    std::string folder = "/etc/berth/hooks.d";
    unsigned timeout = 10;  ///< seconds that each of them may take
};

struct MountSettings {
    MountEngine engine = MountEngine::berth;
    ImageModes modes = ImageModes::enroot;
    uint64_t cache_size = 64ULL << 20;  ///< bytes of decompressed blocks that the file server keeps
    unsigned threads = 0;               ///< of the file server; 0: one a CPU this process may use, at most 8
    /// microseconds that the file server watches for the next request before it sleeps; 0: it sleeps at once
    unsigned busy_poll = 100;
    bool prefetch = true;  ///< whether starts read ahead what earlier ones of the image have read
    bool prefetch_guess = true;  ///< and, where none has, what they are likely to read
    uint64_t hot_image_size = 1ULL << 30;  ///< bytes of an image that are kept unpacked, at most; 0: none
    uint64_t hot_store_size = 4ULL << 30;  ///< the same of all images of a store
    Volumes volumes = Volumes::none;
    /// where containers without a name keep what they write: "memory", or a folder with %U %u %h %j %s %n
    std::string upper = "memory";
};

struct NetworkSettings {
    unsigned connections = 4;  ///< to a registry, at most: layers fetched at a time
    std::string proxy;     ///< "[http://]host:port" of an HTTP proxy for pulls; empty: that of the environment, or none
    std::string no_proxy;  ///< hosts that the proxy is not for, with commas
};

/// The nodes of a step bring an image together.
/// share.artifacts for layers that are published where each image is.
inline constexpr const char* artifacts_beside_images = "referrers";

struct ShareSettings {
    bool enabled = false;
    std::vector<std::string> networks;  ///< in which nodes reach one another, the best first; none: as they reach srun
    std::string ports;                  ///< "FIRST-LAST" at which a node serves; empty: any
    uint64_t rate = 0;                  ///< bytes a second that a node sends at most; 0: no limit
    std::string artifacts;              ///< repository of published layers, or artifacts_beside_images; empty: none
    bool record = false;                ///< whether steps note what they read of their image, for the next publish
    unsigned record_time = 30;          ///< seconds of a step that count for that
};

struct RegistrySettings {
    bool plain_http = false;
    std::string ca;                    ///< PEM file; empty: the system's
    std::vector<std::string> mirrors;  ///< "host[:port]", asked before it
};

struct Site {
    /// Where a value comes from that is not the built-in one: a line of a file, or a variable.
    struct Origin {
        std::string file;
        unsigned line = 0;
        std::string variable;
        bool by_user = false;  ///< a user's variable, not one of plugstack.conf
        std::string text() const;  ///< "FILE:LINE", the variable's name, or "default"
    };
    StoreSettings store;
    DataSettings data;
    DefaultSettings defaults;
    LimitSettings limits;
    PolicySettings policy;
    SlurmSettings slurm;
    SecuritySettings security;
    DeviceSettings devices;
    MpiSettings mpi;
    EventSettings events;
    HookSettings hooks;
    MountSettings mount;
    NetworkSettings network;
    ShareSettings share;
    SiteSettings site;
    LoginSettings logins;  ///< registry.auth_path, registry.auth_commands
    std::map<std::string, RegistrySettings> registries;  ///< by host
    std::map<std::string, Origin> origins;               ///< by key

    /// True when a user's variable gave `key` another value than the site's.
    bool set_by_user(const std::string& key) const;
};

}  // namespace berth::plan
