// From the settings of Enroot and Pyxis, and of others about registries, to a berth.conf. Pure: the files' texts in, a
// file and a report out.
#pragma once
#include <string>
#include <vector>

#include "runtime/migrate/draft.hh"
#include "runtime/migrate/folders.hh"

namespace berth::migrate {

struct File {
    std::string path, text;
};

/// environ.d, mounts.d and hooks.d of the site or of a user. Lists are in the order in which Enroot reads them.
struct Folders {
    std::vector<File> environ, mounts;
    std::vector<HookFile> hooks;
    std::vector<File> credentials;  ///< of a user: none or one
    std::vector<std::string> passed_over;  ///< files in there that Enroot does not read, by their names
};

struct Configuration {
    std::string folder = "/etc/enroot";
    std::vector<File> settings;  ///< enroot.conf, then enroot.conf.d/*.conf
    Folders site;
    std::vector<Folders> users;
    std::vector<File> plugstack;
    std::vector<File> registries = {};  ///< podman's registries.conf, then registries.conf.d/*.conf
    std::vector<File> hosts = {};       ///< containerd's certs.d/HOST/hosts.toml
    std::vector<std::string> certificates = {};  ///< files of docker's, podman's and containerd's certs.d/HOST
};

struct Migration {
    std::string conf;  ///< berth.conf
    std::vector<Hook> hooks;
    std::vector<Finding> findings;  ///< one for each line, in the order of the files
    size_t count(Fate fate) const;
};

/// Decides about every setting. `reader` says which keys and values berth.conf takes (see site_reader).
Migration migrated(const Configuration& from, const Reader& reader);

}  // namespace berth::migrate
