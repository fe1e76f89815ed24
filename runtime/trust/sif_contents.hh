// The bytes of a SIF file, read for the digests that its signatures have, and for the sums by which later reads are
// held to the same bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/squash/format/part_sums.hh"
#include "runtime/squash/format/sif.hh"

namespace berth::trust {

class Digester;

class SifContents {
  public:
    /// Told of the bytes that were read, and of how many there are to read.
    using Progress = std::function<void(uint64_t done, uint64_t total)>;

    /// Reads header and descriptors of `fd`, once and for all. Throws Error naming `what`: no SIF file, two objects of
    /// one number.
    SifContents(int fd, std::string what, Progress progress = {});

    const squash::SifObjects& objects() const { return sif_; }

    /// All of an object. Throws Error.
    std::string bytes(const squash::sif::Descriptor& object) const;

    /// Hexadecimal digits. An object is read once for each algorithm, a MiB at a time. Throws Error.
    std::string digest(const squash::sif::Descriptor& object, const std::string& algorithm);
    /// Of all of them, one after the other.
    std::string digest(const std::vector<const squash::sif::Descriptor*>& objects, const std::string& algorithm);

    /// From now on digest() makes sums of the very bytes that it reads, of the partitions that an image is made of.
    /// Throws Error where there is no such image, and where the order of the descriptors, which no signature covers,
    /// is not that of their numbers.
    void make_sums();

    /// Those of all these partitions. Throws Error where one has not been read.
    squash::PartSums sums() const;

  private:
    [[noreturn]] void refuse(const std::string& why) const;
    void read_into(Digester& digester, const squash::sif::Descriptor& object);
    void keep_sums(uint32_t id, std::vector<uint64_t> fresh);

    int fd_;
    std::string what_;
    Progress progress_;
    squash::SifObjects sif_;
    uint64_t done_ = 0, total_ = 0;                                    ///< bytes of objects
    std::map<std::pair<uint32_t, std::string>, std::string> digests_;  ///< by number and algorithm
    std::vector<squash::sif::Descriptor> parts_;
    SipKey key_;
    std::map<uint32_t, std::vector<uint64_t>> sums_;  ///< by number of the part
};

}  // namespace berth::trust
