// Settings that are one of a few words: their meanings, and the words as berth.conf has them. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/mount_request.hh"

namespace berth::plan {

/// When the registry is asked. newer: one HEAD for a tag, nothing for a digest that is here, and what is here when the
/// registry cannot answer. missing: only when the image is not here. always: always, and its silence is an error.
/// never: not at all. What is on this node already (archives, layouts, daemons) is not the matter of a policy: it is
/// read when it is not known, or with always.
enum class PullPolicy { newer, missing, always, never };

/// How the blocks of layers are packed in the store.
enum class LayerCodec { zstd, lz4, gzip, none };

/// Whether a container starts when its image is here, or as soon as a signed list of it is.
enum class StartPolicy { complete, early };

/// How an image's files come into a container: by berth's file server, or from a folder that they are extracted to.
/// squashfuse: of old; it stands for extract.
enum class MountEngine { berth, extract, squashfuse };

/// Which modes a container shows of its image: what Enroot's create makes of them (directories can be written to by
/// their owner, everything read), or the image's own.
enum class ImageModes { enroot, image };

/// What an image declares as a volume: a directory like any other, or an empty one in memory.
enum class Volumes { none, tmpfs };

/// GPUs. automatic: what was asked for and cannot be had is a warning; required: it is an error; off: there are none.
enum class NvidiaMode { automatic, required, off };

/// RDMA adapters. automatic: those that can be opened, unless a job says otherwise by MELLANOX_VISIBLE_DEVICES; asked:
/// those that this variable asks for.
enum class RdmaMode { automatic, asked, off };

/// What must hold before the node's MPI takes the place of the image's. interface: all that a program of the image may
/// call is there, by the versions in the files' names or else by the functions; major: the major versions are equal.
enum class MpiCheck { interface, major };

/// Who shares the name of a container: all jobs of the user on the node, or the steps of one job.
enum class ContainerScope { global, job, data_path };

/// Who asks the registry what a tag means: srun and sbatch for all nodes, or each node.
enum class TagResolver { submit, nodes };

/// What sbatch does with an image that its registry does not have.
enum class UnknownImage { warn, refuse };

/// Whether the built-in list of refused system calls holds.
enum class Seccomp { built_in, off };

/// What a container has for a home that is not mounted: an empty directory, or a copy of the image's /etc/skel.
enum class Home { empty, skel };

/// What root inside may do: what package managers need, or also mount file systems.
enum class RootCapabilities { files, mount };

/// Whether programs of a container may make user namespaces, and mount in them.
enum class Nested { never, on_request, always };

template <typename Setting>
struct Word {
    Setting value;
    std::string_view text;
};

/// Every word of a setting, in the order in which they are listed for people.
template <typename Setting>
std::span<const Word<Setting>> words();
template <>
std::span<const Word<PullPolicy>> words();
template <>
std::span<const Word<StartPolicy>> words();
template <>
std::span<const Word<LayerCodec>> words();
template <>
std::span<const Word<MountEngine>> words();
template <>
std::span<const Word<ImageModes>> words();
template <>
std::span<const Word<Volumes>> words();
template <>
std::span<const Word<NvidiaMode>> words();
template <>
std::span<const Word<RdmaMode>> words();
template <>
std::span<const Word<MpiCheck>> words();
template <>
std::span<const Word<ContainerScope>> words();
template <>
std::span<const Word<TagResolver>> words();
template <>
std::span<const Word<UnknownImage>> words();
template <>
std::span<const Word<Seccomp>> words();
template <>
std::span<const Word<Home>> words();
template <>
std::span<const Word<RootCapabilities>> words();
template <>
std::span<const Word<Nested>> words();
template <>
std::span<const Word<Propagation>> words();

template <typename Setting>
std::string word_of(Setting setting) {
    for (const Word<Setting>& word : words<Setting>())
        if (word.value == setting) return std::string(word.text);
    return {};
}

/// Nothing for what is none of the words.
template <typename Setting>
std::optional<Setting> parse_word(std::string_view text) {
    for (const Word<Setting>& word : words<Setting>())
        if (word.text == text) return word.value;
    return std::nullopt;
}

template <typename Setting>
std::vector<std::string> word_list() {
    std::vector<std::string> out;
    for (const Word<Setting>& word : words<Setting>()) out.emplace_back(word.text);
    return out;
}

}  // namespace berth::plan
