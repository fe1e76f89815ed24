// What the tests of sources share: small images as layouts and archives, and pulls of them into a store.
#pragma once
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/squash/read/data.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pack.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"

namespace berth::test {

/// The files of a layout or an archive.
using FileMap = std::map<std::string, std::string>;

inline std::string layer_tar() {
    return fixtures::TarBuilder().directory("etc/").file("etc/os", "PRETTY=base\n").finished();
}

inline std::string config_of(const std::string& tar) {
    return cat(
        R"({"architecture":"amd64","os":"linux","config":{"Env":["A=b"],"Cmd":["tool"]},)"
        R"("rootfs":{"type":"layers","diff_ids":[")",
        oci::sha256_of(tar), "\"]}}");
}

inline std::string descriptor(const std::string& type, const std::string& digest, size_t size,
                              const std::string& more = "") {
    return cat(R"({"mediaType":"application/vnd.oci.image.)", type, R"(","digest":")", digest, R"(","size":)", size,
               more, "}");
}

/// An OCI layout that grows blob by blob.
struct Layout {
    FileMap files{{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}};
    std::vector<std::string> entries;

    std::string blob(const std::string& bytes) {
        std::string digest = oci::sha256_of(bytes).text();
        files["blobs/sha256/" + digest.substr(7)] = bytes;
        return digest;
    }
    /// The digest of the manifest of an image whose config has `mark`.
    std::string image(const std::string& mark = "") {
        std::string packed = fixtures::gzip(layer_tar()), config = config_of(layer_tar()) + mark;
        std::string manifest =
            cat(R"({"schemaVersion":2,"config":)", descriptor("config.v1+json", blob(config), config.size()),
                R"(,"layers":[)", descriptor("layer.v1.tar+gzip", blob(packed), packed.size()), "]}");
        return blob(manifest);
    }
    std::string entry(const std::string& digest, const std::string& name,
                      const std::string& type = "manifest.v1+json") const {
        std::string annotations =
            name.empty() ? "" : cat(R"(,"annotations":{"org.opencontainers.image.ref.name":")", name, "\"}");
        return descriptor(type, digest, files.at("blobs/sha256/" + digest.substr(7)).size(), annotations);
    }
    static std::string list(const std::vector<std::string>& members) {
        std::string out;
        for (const std::string& member : members) out += cat(out.empty() ? "" : ",", member);
        return cat(R"({"schemaVersion":2,"manifests":[)", out, "]}");
    }
    void close() { files["index.json"] = list(entries); }
};

inline std::string tar_of(const FileMap& files) {
    fixtures::TarBuilder out;
    for (const auto& [name, content] : files) out.file(name, content);
    return out.finished();
}

/// A folder, a store in it, and pulls into that.
struct SourceScene {
    fixtures::TempFolder folder;

    std::string write(const std::string& name, const std::string& content) const {
        std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
        std::ofstream(folder / name, std::ios::binary) << content;
        return folder / name;
    }
    std::string write(const std::string& name, const FileMap& files) const {
        for (const auto& [file, content] : files) write(name + "/" + file, content);
        return folder / name;
    }
    store::Store store() const { return store::Store::open(folder / "store"); }
    std::string pull(const std::string& reference, pull::Options options = {}) const {
        return pull::pull(store(), plan::parse_reference(reference), options, [](const std::string&) {}).text();
    }
    /// The one line of the failure; nothing may have been published by then but layers.
    std::string failure(const std::string& reference, const pull::Options& options = {}) const {
        try {
            pull(reference, options);
        } catch (const Error& error) {
            std::string line = error.what();
            CHECK(line.find('\n') == line.npos);
            CHECK(count("images") == 0);
            CHECK(count("refs") == 0);
            CHECK(count("tmp") == 0);
            return line;
        }
        return "";
    }
    size_t count(const std::string& name) const {
        std::string path = cat(folder / "store", "/", name);
        return std::filesystem::exists(path)
                   ? static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}))
                   : 0;
    }
    /// /etc/os of a stored image.
    std::string os_of(const std::string& digest) const {
        squash::Index index = squash::Index::open(store().open_index(Digest(digest)).get(), "index");
        auto file = index.file(index.lookup(index.lookup(1, "etc"), "os"));
        if (!file) return "(absent)";
        squash::DataReader reader(store().open_layers(index), index.layers(), 1 << 20);
        std::string out(file->size, '\0');
        REQUIRE(reader.read(*file, 0, out) == static_cast<long>(out.size()));
        return out;
    }
};

/// Makes the last change of a file lie so far back that it is believed.
inline void age(const std::string& path) { fixtures::run_command("touch -d '1 hour ago' '" + path + "'"); }

}  // namespace berth::test
