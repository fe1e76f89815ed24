#include "hooks/nvidia/names.hh"

namespace berth::hooks {

namespace {

using enum Capability;

// Of NVIDIA's driver README, "Listing of Installed Components", and of the files of packages.
constexpr DriverPart libraries[] = {
    {"libnvidia-ml", utility},
    {"libnvidia-cfg", utility},
    {"libnvidia-nscq", utility},
    {"libnvidia-sandboxutils", utility},
    {"libcuda", compute},
    {"libcudadebugger", compute},
    {"libnvcuextend", compute},
    {"libnvidia-opencl", compute},
    {"libnvidia-gpucomp", compute, graphics},  // eglcore and glcore need it since 550
    {"libnvidia-ptxjitcompiler", compute},
    {"libnvidia-fatbinaryloader", compute, graphics},  // that of 418 is needed by cbl
    {"libnvidia-allocator", compute, graphics},  // it is the back end of GBM too
    {"libnvidia-compiler", compute},
    {"libnvidia-pkcs11", compute},
    {"libnvidia-pkcs11-openssl3", compute},
    {"libnvidia-nvvm", compute},
    {"libnvidia-tileiras", compute},
    {"libvdpau_nvidia", video},
    {"libnvidia-encode", video},
    {"libnvidia-opticalflow", video},
    {"libnvcuvid", video},
    {"libnvidia-eglcore", graphics},
    {"libnvidia-glcore", graphics},
    {"libnvidia-tls", graphics},
    {"libnvidia-glsi", graphics},
    {"libnvidia-fbc", graphics},
    {"libnvidia-ifr", graphics},
    {"libnvidia-rtcore", graphics},
    {"libnvoptix", graphics},
    {"libGLX_nvidia", graphics},
    {"libEGL_nvidia", graphics},
    {"libGLESv2_nvidia", graphics},
    {"libGLESv1_CM_nvidia", graphics},
    {"libnvidia-glvkspirv", graphics},
    {"libnvidia-cbl", graphics},
    {"libnvidia-present", graphics},
    {"libnvidia-vksc-core", graphics},
    {"libnvidia-vulkan-producer", graphics},
    {"libnvidia-ngx", ngx},
};
constexpr DriverPart companions[] = {
    {"libnvidia-nvvm70.so.4", compute},         {"libnvidia-api.so.1", graphics},
    {"libnvidia-egl-gbm.so.1", graphics},       {"libnvidia-egl-wayland.so.1", graphics},
    {"libnvidia-egl-wayland2.so.1", graphics},  {"libnvidia-egl-xcb.so.1", graphics},
    {"libnvidia-egl-xlib.so.1", graphics},
};
constexpr const char* link_endings[] = {".1", ".0", ".2", ".4", ""};
constexpr DriverPart programs[] = {
    {"nvidia-smi", utility},
    {"nvidia-debugdump", utility},
    {"nvidia-persistenced", utility},
    {"nv-fabricmanager", utility},
    {"nvidia-imex", utility},
    {"nvidia-imex-ctl", utility},
    {"nvidia-cuda-mps-control", compute},
    {"nvidia-cuda-mps-server", compute},
    {"nvidia-pcc", graphics},
};
constexpr DriverPart sockets[] = {
    {"/run/nvidia-persistenced/socket", utility},
    {"/run/nvidia-fabricmanager/socket", utility},
};
constexpr DriverPart configurations[] = {
    {"/etc/nvidia-imex/config.cfg", utility},
    {"/etc/OpenCL/vendors/nvidia.icd", compute},
    {"/usr/share/glvnd/egl_vendor.d/10_nvidia.json", graphics},
    {"/usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json", graphics},
    {"/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json", graphics},
    {"/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json", graphics},
    {"/usr/share/egl/egl_external_platform.d/20_nvidia_xcb.json", graphics},
    {"/usr/share/egl/egl_external_platform.d/20_nvidia_xlib.json", graphics},
    {"/usr/share/nvidia/nvoptix.bin", graphics},
    {"/usr/share/vulkan/icd.d/nvidia_icd.json", graphics},
    {"/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", graphics},  // packages for RPM
    {"/usr/share/vulkan/icd.d/nvidia_icd.aarch64.json", graphics},
    {"/etc/vulkan/icd.d/nvidia_icd.json", graphics},  // NVIDIA's own installer
    {"/usr/share/vulkan/implicit_layer.d/nvidia_layers.json", graphics},
    {"/etc/vulkan/implicit_layer.d/nvidia_layers.json", graphics},
    {"/usr/share/vulkansc/icd.d/nvidia_icd.x86_64.json", graphics},
    {"/usr/share/vulkansc/icd.d/nvidia_icd_vksc.x86_64.json", graphics},
    {"/etc/vulkansc/icd.d/nvidia_icd.json", graphics},
};
constexpr CapabilityNode nodes[] = {
    {"/dev/nvidia-uvm-tools", compute, "unified memory, for compute"},
    {"/dev/nvidia-modeset", display, "display"},
};
constexpr HelperNodes helpers[] = {
    {"gdrdrv", "NVIDIA_GDRCOPY", &NvidiaRequest::gdrcopy},
    {"nvidia-fs", "NVIDIA_GDS", &NvidiaRequest::gds},
    {"nvidia-nvswitch", "NVIDIA_NVSWITCH", &NvidiaRequest::nvswitch},
};

}  // namespace

std::span<const DriverPart> driver_libraries() { return libraries; }
std::span<const DriverPart> companion_libraries() { return companions; }
std::span<const char* const> library_link_endings() { return link_endings; }
std::span<const DriverPart> driver_programs() { return programs; }
std::span<const DriverPart> driver_sockets() { return sockets; }
std::span<const DriverPart> driver_configurations() { return configurations; }
std::span<const CapabilityNode> capability_nodes() { return nodes; }
std::span<const HelperNodes> helper_nodes() { return helpers; }

}  // namespace berth::hooks
