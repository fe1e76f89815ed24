// An image that can be started before its layers are here, and who reads it then.
#pragma once
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "runtime/pull/image/stored.hh"
#include "runtime/pull/lazy/early.hh"
#include "runtime/pull/lazy/early_parts.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/profile.hh"
#include "tests/catch.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/unit/trusted_scene.hh"

namespace berth::fixtures {

inline const std::string first_file = random_bytes(5 << 20, 1), second_file = random_bytes(3 << 20, 2),
                  small_file = random_bytes(900, 3);

/// Two layers of some chunks each, published with what an early start needs.
struct EarlyScene : TrustedScene {
    pull::EarlyParts parts;

    EarlyScene()
        : TrustedScene({tar_of({{"a", first_file}, {"etc/", ""}, {"etc/os", "base\n"}}),
                        tar_of({{"b", second_file}, {"c", small_file}})}) {
        content.sends_parts = true;
        store = "publisher";
        parts = pull::make_early_parts(open(), pull::describe(open(), Digest(digest), "x"), "x");
        store = "store";
    }
    oci::Artifact early_artifact() {
        oci::Artifact out = artifact();
        out.index = blob(oci::index_type, parts.index);
        out.sums = blob(oci::sums_type, parts.sums);
        return out;
    }
    pull::Options early_options() const {
        pull::Options out = options();
        out.prove_later = out.early = true;
        out.stall_time = std::chrono::seconds(2);
        return out;
    }
    plan::Reference reference() const { return plan::parse_reference(host + "/a/b:1"); }
    /// The manifest of what can start; nothing when the pull has brought the whole image.
    std::optional<Digest> start() {
        pull::Afterwards out;
        CHECK(pull::pull(open(), reference(), early_options(), meter, out) == digest);
        return out.early;
    }
    std::optional<pull::Unproved> complete() {
        return pull::complete_early(open(), reference(), Digest(digest), early_options(), meter).unproved;
    }
    /// The right bytes of a chunk.
    std::string chunk(const store::PartialLayer& layer, uint32_t number) const {
        for (size_t i = 0; i < halves.size(); ++i)
            if (Digest(image.layers[i].diff_id) == layer.diff_id)
                return halves[i].squashfs.substr((number - layer.first) * ChunkMap::chunk_size, ChunkMap::chunk_size);
        return {};
    }
    size_t ranges_of(size_t layer) const {
        return server->count("GET /v2/a/b/blobs/" + oci::sha256_of(halves[layer].squashfs).text());
    }
};

/// A container of the image, as far as it reads.
struct Reading {
    store::Store::OpenedFiles files;
    squash::DataReader reader;

    explicit Reading(const store::Store& store, const Digest& manifest)
        : files(opened(store, manifest)),
          reader(std::move(files.layers), files.index.layers(), 1 << 20, files.coming) {
        // Less than what a test may take.
        files.coming.map->set_patience(std::chrono::seconds(60));
    }
    static store::Store::OpenedFiles opened(const store::Store& store, const Digest& manifest) {
        auto out = store::open_partial(store, manifest);
        REQUIRE(out);
        return std::move(*out);
    }
    /// Until so many chunks are waited for.
    void wait_for_wishes(size_t count) const {
        for (int tries = 0; tries < 60'000 && files.coming.map->wanted().size() < count; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    squash::FileData file(const std::string& name) const { return *files.index.file(files.index.lookup(1, name)); }
    bool is_here(const std::string& name) const { return reader.is_here(file(name), 0, file(name).size); }
    /// The bytes, or the error as a number.
    std::string read(const std::string& name, uint64_t offset = 0, size_t size = SIZE_MAX,
                     const std::function<bool()>& interrupted = {}) {
        squash::FileData data = file(name);
        std::string out(std::min<uint64_t>(size, data.size - offset), '\0');
        long got = reader.read(data, offset, out, interrupted);
        return got == static_cast<long>(out.size()) ? out : cat(got);
    }
};

/// Numbers by chance, the same for the same seed and order. Safe to use from many threads.
class Chance {
  public:
    explicit Chance(unsigned seed) : random_(seed) {}
    unsigned below(unsigned limit) {
        std::lock_guard lock(mutex_);
        return static_cast<unsigned>(random_() % limit);
    }

  private:
    std::mutex mutex_;
    std::mt19937 random_;
};

/// Some answers about blobs that are wrong, cut short, errors, or none.
inline void add_faults(EarlyScene& scene, Chance& chance, std::atomic<unsigned>& faults) {
    scene.fault = [&](const test::HttpCall& call) -> std::optional<test::HttpReply> {
        if (call.target.find("/blobs/") == call.target.npos || faults == 0 || chance.below(3) != 0)
            return std::nullopt;
        --faults;
        test::HttpReply reply = scene.content.answer(call);
        if (chance.below(4) == 0) return test::HttpReply{.status = 503};
        if (chance.below(3) == 0) return test::HttpReply{.hang_up = true};
        if (reply.body.empty()) return reply;
        size_t place = chance.below(static_cast<unsigned>(reply.body.size()));
        if (chance.below(2) == 0)
            reply.body[place] ^= 1;
        else
            reply.declared_size = reply.body.size(), reply.body.resize(place);
        return reply;
    };
}

/// What readers of all kinds of places have come to.
struct ReadCounts {
    std::atomic<size_t> right = 0, errors = 0, interrupted = 0, wrong = 0;
};

inline void read_by_chance(Reading& reading, Chance& chance, const std::atomic<bool>& over, ReadCounts& counts) {
    const std::map<std::string, std::string> files{{"a", first_file}, {"b", second_file}, {"c", small_file}};
    while (!over) {
        auto file = std::next(files.begin(), chance.below(3));
        auto offset = chance.below(static_cast<unsigned>(file->second.size())), size = chance.below(2 << 20);
        bool ends = chance.below(20) == 0;
        std::string got = reading.read(file->first, offset, size, [&] { return over || ends; });
        if (got == file->second.substr(offset, size))
            ++counts.right;
        else if (got == cat(-EINTR))
            ++counts.interrupted;
        else
            got == cat(-EIO) ? ++counts.errors : ++counts.wrong;
    }
}

/// Sets `stop` before long, or not at all, and at once when `over` is set.
inline void stop_by_chance(Chance& chance, std::atomic<bool>& stop, const std::atomic<bool>& over) {
    for (unsigned left = chance.below(60); left > 0 && !over; --left)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = chance.below(2) == 0 || stop;
}

/// How many schedules of chance a test goes through: so many, or as the environment says.
inline unsigned schedules_wanted(unsigned usual) {
    const char* wanted = std::getenv("BERTH_TEST_SCHEDULES");
    return wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : usual;
}

/// The number of the first of them, so that several runs can share many.
inline unsigned first_schedule() {
    const char* first = std::getenv("BERTH_TEST_FIRST_SCHEDULE");
    return first != nullptr ? static_cast<unsigned>(std::atoi(first)) : 0;
}

}  // namespace berth::fixtures
