#include "hooks/makers.hh"

namespace berth::hooks {

// A family's own files need no header for this list.
extern const DeviceMaker nvidia_maker, amd_maker, rdma_maker, mpi_maker, cdi_maker, site_maker;

std::span<const DeviceMaker* const> device_makers() {
    static constexpr const DeviceMaker* all[] = {&nvidia_maker, &amd_maker, &rdma_maker, &mpi_maker,
                                                 &cdi_maker,    &site_maker};
    return all;
}

}  // namespace berth::hooks
