// What stands between this node and a container, and what to do about it: facts about the host judged by a pure
// function.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/makers.hh"
#include "runtime/config/networks.hh"
#include "runtime/host/addresses.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth {

/// What trying something gave: empty when it worked, else the finished line of why not.
using Attempt = std::optional<std::string>;

/// A directory that berth writes to.
struct PlaceFacts {
    std::string path;
    std::string problem;      ///< why it cannot be used; empty: it can
    std::string file_system;  ///< "ext4", "nfs", or a number for one without a name here
    bool network = false;
    bool locks = true;
    uint64_t free_bytes = 0;
    uint64_t free_inodes = 1;  ///< 1 where the file system does not count them
};

/// A store that the site offers.
struct SharedStoreFacts {
    std::string path;
    std::string problem = {};  ///< why it, or something in it, is passed over; empty: it is not
    bool here = true;
    std::string file_system = {};
    size_t images = 0;
};

/// How nodes of a step share an image, where the site wants that (share.enabled).
struct SharingFacts {
    bool enabled = false;
    std::vector<std::string> networks;    ///< share.networks
    std::vector<LocalAddress> addresses;  ///< of this node
    plan::PortRange ports;                ///< share.ports; both 0: any
    unsigned free_ports = 0;              ///< of `ports`, just now
};

struct SlurmFacts {
    std::string version;              ///< "22.05.8"; empty: there is no slurmd here, and no configured srun
    std::string plugstack;            ///< the file that loads the plugin; empty: none of those looked at does
    std::string line_problem;         ///< of the line that loads it, see problem_of_line()
    std::string pyxis;                ///< the file that loads Pyxis' plugin as well; empty: none does
    std::vector<std::string> looked;  ///< the files looked at
    std::string plugin;               ///< path of the plugin; empty: not found
    std::optional<uint32_t> built_for;  ///< its plugin_version, 0xMMmmuu as SLURM_VERSION_NUMBER
    std::string plugin_problem;       ///< why root would refuse it, or it cannot be read
    std::vector<std::string> settings;  ///< of slurm.conf and cgroup.conf, see site_settings.hh
};

/// Everything examine() looks at. Tests make their own.
struct DoctorFacts {
    std::string kernel;  ///< "6.1.0-18-amd64"
    Attempt user_namespace, overlay, tmpfs_xattrs, fuse;
    sandbox::NamespaceSettings settings;
    std::string cgroups;  ///< "v2", "v1", "hybrid" or "none"
    uint64_t memlock = 0;              ///< RLIMIT_MEMLOCK, bytes; UINT64_MAX: unlimited
    uint64_t open_files = 0;
    std::string pull_program;          ///< its path
    std::string pull_program_problem;  ///< empty: it is there
    std::string site_file_problem;     ///< empty: it is fine, or there is none
    bool asks_for_squashfuse = false;  ///< by mount.engine
    std::vector<std::string> event_troubles;  ///< why events are not written; empty: they are, or none are wanted
    std::string counters_to_come;             ///< the folder of events.counters that no step has made yet; empty: it is
    PlaceFacts store;
    std::vector<SharedStoreFacts> shared_stores;
    SharingFacts sharing;
    SlurmFacts slurm;
    std::vector<hooks::DeviceStatus> devices;
};

struct Finding {
    enum class Verdict { ok, note, warning, failure };
    Verdict verdict = Verdict::ok;
    std::string subject;  ///< "user namespaces"
    std::string text;     ///< what was found
    std::string advice;   ///< what to do; empty when nothing has to be done
};

/// Pure. One finding for each subject, in the order a start needs them. A failure means that no container starts here,
/// or none in a Slurm step.
std::vector<Finding> examine(const DoctorFacts& facts);

/// Tries and looks at everything. In child processes where that changes namespaces; writes nothing that stays.
DoctorFacts gather_doctor_facts();

/// The part about Slurm: the version, the plugstack files, the plugin.
SlurmFacts gather_slurm_facts();

}  // namespace berth
