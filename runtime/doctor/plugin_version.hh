// For which release of Slurm a SPANK plugin was built.
#pragma once
#include <cstdint>
#include <optional>

namespace berth {

/// The constant that each plugin has in its symbol plugin_version (slurm/spank.h), 0xMMmmuu as SLURM_VERSION_NUMBER, of
/// the file `fd`. Nothing for what is no 64-bit shared object (ELF, System V ABI) with that symbol, or has it behind so
/// many others that 65536 records were read. Throws SysError when the file cannot be read.
std::optional<uint32_t> plugin_version_in(int fd);

}  // namespace berth
