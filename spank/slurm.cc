#include "spank/slurm.hh"

#include <cstdio>
#include <string_view>

namespace berth::spank {

namespace {

const char* job_mounts_plugin(const slurm_conf_t& known) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    return known.namespace_plugin;
#else
    return known.job_container_plugin;
#endif
}

}  // namespace

std::string built_for() {
    constexpr unsigned number = SLURM_VERSION_NUMBER;
    char out[32];
    snprintf(out, sizeof out, "%u.%02u.%u", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
    return out;
}

std::string runs_in(spank_t spank) {
    // Slurm answers this everywhere; a release candidate has more than numbers in it, unlike its header.
    const char* version = nullptr;
    return spank_get_item(spank, S_SLURM_VERSION, &version) == ESPANK_SUCCESS && version != nullptr ? version : "";
}

slurm_conf_t* settings(spank_t spank) {
    static const bool known = &slurm_conf != nullptr && runs_in(spank) == built_for();
    return known ? &slurm_conf : nullptr;
}

bool may_be_contained(spank_t spank) {
    const slurm_conf_t* known = settings(spank);
#ifdef CONF_FLAG_CONTAIN_SPANK
    return known == nullptr || (known->conf_flags & CONF_FLAG_CONTAIN_SPANK) != 0;
#else
    return known == nullptr;
#endif
}

bool has_no_epilog(spank_t spank) {
#ifdef PROLOG_FLAG_RUN_IN_JOB
    const slurm_conf_t* known = settings(spank);
    return known != nullptr && (known->prolog_flags & PROLOG_FLAG_RUN_IN_JOB) != 0;
#else
    (void)spank;
    return false;
#endif
}

bool is_without_allocation(uint32_t job) {
    // MIN_NOALLOC_JOBID and MAX_NOALLOC_JOBID, which Slurm keeps to itself (src/common/slurm_protocol_api.h).
    return job >= 0xffff0000 && job <= 0xfffffffd;
}

bool may_have_job_mounts(spank_t spank) {
    const slurm_conf_t* known = settings(spank);
    if (known == nullptr) return true;
    const char* plugin = job_mounts_plugin(*known);
    return plugin != nullptr && plugin[0] != '\0' && !std::string_view(plugin).ends_with("/none");
}

}  // namespace berth::spank
