#include "runtime/config/words.hh"

namespace berth::plan {

template <>
std::span<const Word<PullPolicy>> words() {
    static constexpr Word<PullPolicy> all[] = {{PullPolicy::newer, "newer"},
                                               {PullPolicy::missing, "missing"},
                                               {PullPolicy::always, "always"},
                                               {PullPolicy::never, "never"}};
    return all;
}

template <>
std::span<const Word<LayerCodec>> words() {
    static constexpr Word<LayerCodec> all[] = {
        {LayerCodec::zstd, "zstd"}, {LayerCodec::lz4, "lz4"}, {LayerCodec::gzip, "gzip"}, {LayerCodec::none, "none"}};
    return all;
}

template <>
std::span<const Word<StartPolicy>> words() {
    static constexpr Word<StartPolicy> all[] = {{StartPolicy::complete, "complete"}, {StartPolicy::early, "early"}};
    return all;
}

template <>
std::span<const Word<MountEngine>> words() {
    static constexpr Word<MountEngine> all[] = {
        {MountEngine::berth, "berth"}, {MountEngine::squashfuse, "squashfuse"}, {MountEngine::extract, "unpack"}};
    return all;
}

template <>
std::span<const Word<ImageModes>> words() {
    static constexpr Word<ImageModes> all[] = {{ImageModes::enroot, "enroot"}, {ImageModes::image, "image"}};
    return all;
}

template <>
std::span<const Word<Volumes>> words() {
    static constexpr Word<Volumes> all[] = {{Volumes::none, "none"}, {Volumes::tmpfs, "tmpfs"}};
    return all;
}

template <>
std::span<const Word<NvidiaMode>> words() {
    static constexpr Word<NvidiaMode> all[] = {
        {NvidiaMode::automatic, "auto"}, {NvidiaMode::required, "required"}, {NvidiaMode::off, "off"}};
    return all;
}

template <>
std::span<const Word<RdmaMode>> words() {
    static constexpr Word<RdmaMode> all[] = {
        {RdmaMode::automatic, "auto"}, {RdmaMode::asked, "asked"}, {RdmaMode::off, "off"}};
    return all;
}

template <>
std::span<const Word<MpiCheck>> words() {
    static constexpr Word<MpiCheck> all[] = {{MpiCheck::interface, "interface"}, {MpiCheck::major, "major"}};
    return all;
}

template <>
std::span<const Word<ContainerScope>> words() {
    static constexpr Word<ContainerScope> all[] = {{ContainerScope::global, "global"},
                                                   {ContainerScope::job, "job"},
                                                   {ContainerScope::data_path, "data_path"}};
    return all;
}

template <>
std::span<const Word<TagResolver>> words() {
    static constexpr Word<TagResolver> all[] = {{TagResolver::submit, "submit"}, {TagResolver::nodes, "nodes"}};
    return all;
}

template <>
std::span<const Word<UnknownImage>> words() {
    static constexpr Word<UnknownImage> all[] = {{UnknownImage::warn, "warn"}, {UnknownImage::refuse, "refuse"}};
    return all;
}

template <>
std::span<const Word<Seccomp>> words() {
    static constexpr Word<Seccomp> all[] = {{Seccomp::built_in, "default"}, {Seccomp::off, "off"}};
    return all;
}

template <>
std::span<const Word<Home>> words() {
    static constexpr Word<Home> all[] = {{Home::empty, "empty"}, {Home::skel, "skel"}};
    return all;
}

template <>
std::span<const Word<RootCapabilities>> words() {
    static constexpr Word<RootCapabilities> all[] = {{RootCapabilities::files, "files"},
                                                     {RootCapabilities::mount, "mount"}};
    return all;
}

template <>
std::span<const Word<Nested>> words() {
    static constexpr Word<Nested> all[] = {
        {Nested::never, "never"}, {Nested::on_request, "on request"}, {Nested::always, "always"}};
    return all;
}

/// Those that a site may want for all mounts: with the others a container would change the node's, or get less.
template <>
std::span<const Word<Propagation>> words() {
    static constexpr Word<Propagation> all[] = {{Propagation::slave, "rslave"}, {Propagation::isolated, "private"}};
    return all;
}

}  // namespace berth::plan
