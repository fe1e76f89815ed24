#include "runtime/host/pull_program.hh"

#include <unistd.h>

#include "runtime/base/access.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/own_program.hh"

namespace berth {

std::string pull_program() {
    std::string folder = own_program_path();
    folder.erase(folder.rfind('/'));
    for (const std::string& path : {folder + "/berth-pull", folder + "/../libexec/berth/berth-pull"})
        if (sys::may_access(path, X_OK)) return path;
    throw Error(cat("finding the program berth-pull: neither beside berth in ", folder, " nor in ", folder,
                    "/../libexec/berth; install berth completely"));
}

std::vector<std::string> site_arguments() {
    if (!sys::may_access(site_path, F_OK)) return {};
    return {"--site", site_path};
}

std::vector<std::string> pull_arguments(const plan::Site& site, const std::string& store) {
    std::vector<std::string> arguments = site_arguments();
    arguments.insert(arguments.end(), {"--store", store, "--policy", plan::word_of(site.store.pull)});
    for (const auto& [host, registry] : site.registries)
        if (registry.plain_http) arguments.insert(arguments.end(), {"--plain-http", host});
    // These may come from the caller's variables, which in a step are not in this process's environment.
    for (const std::string& setting : {cat("BERTH_STORE_COMPRESSION=", plan::word_of(site.store.compression)),
                                       cat("BERTH_STORE_COMPRESSION_LEVEL=", site.store.compression_level),
                                       cat("BERTH_NETWORK_CONNECTIONS=", site.network.connections),
                                       cat("BERTH_LIMITS_PULL_MEMORY=", site.limits.pull_memory),
                                       cat("BERTH_LIMITS_IMAGE_SIZE=", site.limits.image_size),
                                       cat("BERTH_LIMITS_PULL_TIME=", site.limits.pull_time),
                                       cat("BERTH_LIMITS_STALL_TIME=", site.limits.stall_time),
                                       cat("BERTH_LIMITS_FETCH_RATE=", site.limits.fetch_rate)})
        arguments.insert(arguments.end(), {"--setting", setting});
    if (!site.share.artifacts.empty())
        arguments.insert(arguments.end(), {"--setting", cat("BERTH_SHARE_ARTIFACTS=", site.share.artifacts)});
    if (!site.logins.auth_path.empty())
        arguments.insert(arguments.end(), {"--setting", cat("BERTH_REGISTRY_AUTH_PATH=", site.logins.auth_path)});
    std::string networks;
    for (const std::string& network : site.share.networks) networks += cat(networks.empty() ? "" : " ", network);
    for (const std::string& setting :
         {cat("BERTH_SHARE_NETWORKS=", networks), cat("BERTH_SHARE_PORTS=", site.share.ports),
          cat("BERTH_SHARE_RATE=", site.share.rate)})
        if (site.share.enabled) arguments.insert(arguments.end(), {"--setting", setting});
    if (site.limits.store_size > 0)
        arguments.insert(arguments.end(), {"--keep-bytes", std::to_string(site.limits.store_size)});
    if (site.limits.store_age > 0)
        arguments.insert(arguments.end(), {"--keep-days", std::to_string(site.limits.store_age)});
    return arguments;
}

}  // namespace berth
