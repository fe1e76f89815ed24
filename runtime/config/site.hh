// The settings of a site: what berth.conf, and the variables over it, come to.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::plan {

/// The site file's settings (conf/berth.conf); the defaults here are the documented ones.
struct Site {
    /// Where a value comes from that is not the built-in one: a line of a file, or a variable.
    struct Origin {
        std::string file;
        unsigned line = 0;
        std::string variable;
        std::string text() const;  ///< "FILE:LINE", the variable's name, or "default"
    };
    struct Registry {
        bool plain_http = false;
        std::string ca;  ///< PEM file; empty: the system's
        std::vector<std::string> mirrors;  ///< "host[:port]", asked before it
    };
    std::string store_path = "/var/lib/berth/%U";
    std::string data_path = "/var/lib/berth/%U.containers";
    std::string pull_policy = "newer";
    std::map<std::string, Registry> registries;
    std::string compression = "zstd";   ///< of the layers in the store: zstd, lz4, gzip or none
    unsigned compression_level = 0;     ///< as the codec counts; 0: what suits a pull
    unsigned connections = 4;           ///< to a registry, at most: layers fetched at a time
    uint64_t pull_memory = 128ULL << 20;  ///< bytes that a pull may take
    std::string proxy;     ///< "[http://]host:port" of an HTTP proxy for pulls; empty: that of the environment, or none
    std::string no_proxy;  ///< hosts that the proxy is not for, with commas
    std::string resolve_tags = "submit";   ///< "submit": srun and sbatch ask the registry what a tag means, for all
                                           ///< nodes; "nodes": each node does
    bool client_in_container = false;      ///< Slurm's own commands work in containers
    std::vector<std::string> client_files;  ///< and what they need there besides what berth finds by itself
    bool remap_root = false;
    bool mount_home = false;
    bool writable = true;
    bool entrypoint = false;
    std::string container_scope = "global";  ///< which jobs share a container's name: "global": all of the user's on
                                             ///< the node; "job": the steps of one
    uint64_t store_size = 0;  ///< bytes that the store may keep after a pull; 0: no limit
    unsigned store_age = 0;   ///< days without use after which an image is removed; 0: never
    uint64_t tmpfs_size = 0;  ///< bytes of the writable layer; 0: the kernel's default, half of memory
    uint64_t cache_bytes = 64ULL << 20;  ///< decompressed blocks kept by the file server
    std::string seccomp = "default";     ///< "default": the built-in list of refused system calls holds ..., or "off"
    std::vector<std::string> seccomp_allow;  ///< ... but for these ...
    std::vector<std::string> seccomp_deny;   ///< ... and these are refused besides
    bool mask = true;                        ///< hide what masked_paths() has, and protect read_only_paths()
    /// "tmpfs": the image's volumes are mounted, empty; "none": they are plain directories
    std::string volumes = "none";
    std::string nvidia = "auto";  ///< GPUs: "auto", "required" (one that is asked for and missing is an error) or "off"
    std::string driver_root = "/";       ///< where the NVIDIA driver's libraries and programs lie
    std::string device_root = "/";       ///< where the folder dev with its nodes lies
    std::string rdma = "auto";  ///< "auto": as MELLANOX_VISIBLE_DEVICES asks; "all": what can be opened, always; "off"
    bool rdma_userspace = false;         ///< the node's verbs libraries in place of the image's
    /// device families that are not asked, whatever a job or image says: names of makers (hooks/makers.hh)
    std::vector<std::string> devices_disabled;
    std::vector<std::string> cdi;        ///< CDI devices that every container gets: "vendor.com/class=name"
    /// of their descriptions; a later one counts more
    std::vector<std::string> cdi_folders = {"/etc/cdi", "/var/run/cdi"};
    std::string hook_folder = "/etc/berth/hooks.d";  ///< of the site's programs
    unsigned hook_seconds = 10;          ///< that each of them may take
    std::string event_log;  ///< where each start, pull and failure is told: a file (see path_for()), "syslog", or
                            ///< empty: nowhere
    std::string counter_folder;          ///< of the users' files of counters; empty: nothing is counted
    /// how an image's files come into a container: "berth", by a file server; "unpack", from a folder
    std::string mount_engine = "berth";
    unsigned server_threads = 0;         ///< 0: one a CPU this process may use, at most 8
    /// microseconds that the file server watches for the next request before it sleeps; 0: it sleeps at once
    unsigned busy_poll = 100;
    uint64_t image_size = 0;    ///< bytes that an image's layers may have, packed; 0: no limit
    unsigned pull_seconds = 0;  ///< that a pull may take; 0: no limit
    // What users may do; "*" in a list is everything or everybody. See plan/policy.hh.
    std::vector<std::string> registries_allowed = {"*"};
    std::vector<std::string> registries_denied;
    bool digest_required = false;
    std::vector<std::string> mount_sources = {"*"};
    std::vector<std::string> image_paths = {"*"};
    std::vector<std::string> root_users = {"*"};
    std::vector<std::string> writable_users = {"*"};
    std::vector<std::string> locked;  ///< keys, or whole sections, that variables may not change
    std::map<std::string, Origin> origins;  ///< by key
};

}  // namespace berth::plan
