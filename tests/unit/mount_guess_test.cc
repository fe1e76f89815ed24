// What a container is likely to read next.
#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/elf_loads.hh"
#include "runtime/mount/fuse/guess.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"

using namespace berth;
using mount::ElfLoads;
using mount::ElfPart;

namespace {

template <typename Record>
void append(std::string& out, const Record& record) {
    out.append(reinterpret_cast<const char*>(&record), sizeof record);
}

constexpr uint64_t names_at = 0x200, relocations_at = 0x300, text_at = 0x1000, data_at = 0x3000;
constexpr uint64_t relocations_size = 0x180, data_size = 0x400, data_address = 0x5000;

/// A library: names and relocations, a program, and data with the dynamic section. `one_segment`: the first two in one.
std::string library(const std::vector<std::string>& needed, bool one_segment = false) {
    std::string names(1, '\0'), dynamic;
    auto entry = [&](int64_t tag, uint64_t value) {
        Elf64_Dyn one{};
        one.d_tag = tag;
        one.d_un.d_val = value;
        append(dynamic, one);
    };
    for (const std::string& name : needed) entry(DT_NEEDED, names.size()), names += name + '\0';
    entry(DT_STRTAB, names_at), entry(DT_STRSZ, names.size());
    entry(DT_RELA, relocations_at), entry(DT_RELASZ, relocations_size), entry(DT_NULL, 0);
    std::vector<Elf64_Phdr> parts;
    auto part = [&](uint32_t type, uint32_t flags, uint64_t offset, uint64_t address, uint64_t size) {
        parts.push_back({type, flags, offset, address, address, size, size, 0x1000});
    };
    if (one_segment) {
        part(PT_LOAD, PF_R | PF_X, 0, 0, data_at);
    } else {
        part(PT_LOAD, PF_R, 0, 0, text_at);
        part(PT_LOAD, PF_R | PF_X, text_at, text_at, data_at - text_at);
    }
    part(PT_LOAD, PF_R | PF_W, data_at, data_address, data_size);
    part(PT_DYNAMIC, PF_R | PF_W, data_at, data_address, dynamic.size());
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<uint16_t>(parts.size());
    std::string out;
    append(out, header);
    for (const Elf64_Phdr& one : parts) append(out, one);
    out.resize(names_at), out += names;
    out.resize(data_at), out += dynamic;
    out.resize(data_at + data_size);
    return out;
}

ElfLoads loads_of(const std::string& bytes) {
    return mount::elf_loads(
        [&](uint64_t offset, size_t size) { return offset < bytes.size() ? bytes.substr(offset, size) : ""; });
}

/// An image and what is read ahead of it.
struct Scene {
    std::map<std::string, std::string> contents;
    squash::Index index;
    squash::ListPlaces places{index};
    std::set<std::string> read, listed, looked_up;
    mount::Guess guess{
        index,
        places,
        {.read = [this](uint32_t inode, uint64_t offset,
                        uint64_t) { read.insert(cat(name_of(inode), offset == 0 ? "" : cat(" ", offset))); },
         .list = [this](uint32_t directory) { listed.insert(places.path_of(directory)); },
         .look_up = [this](uint32_t directory, const std::string& name) { looked_up.insert(path(directory, name)); },
         .content =
             [this](uint32_t inode, uint64_t offset, size_t size) {
                 const std::string& bytes = contents[name_of(inode)];
                 return offset < bytes.size() ? bytes.substr(offset, size) : "";
             }}};

    explicit Scene(const std::vector<std::pair<std::string, std::string>>& files) : index(made(files)) {
        for (const auto& [name, content] : files) contents[name] = content;
    }

    static squash::Index made(const std::vector<std::pair<std::string, std::string>>& files) {
        Fd file(::memfd_create("layer", MFD_CLOEXEC));
        squash::LayerWriter writer(file.get(), {});
        std::set<std::string> folders;
        for (const auto& [name, content] : files) {
            for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
                if (folders.insert(name.substr(0, slash)).second) writer.add_directory(name.substr(0, slash), {});
            if (content.starts_with("-> ")) {
                writer.add_symlink(name, {}, content.substr(3));
                continue;
            }
            writer.begin_file(name, {.mode = 0644, .xattrs = {}});
            writer.append(content);
            writer.end_file();
        }
        writer.finish();
        std::vector<squash::LayerInfo> layers(1);
        squash::Tree tree = squash::read_tree(file.get(), "layer", 0, layers[0]);
        return squash::Index::from_bytes(squash::build_index(tree, layers, {}));
    }

    std::string path(uint32_t directory, const std::string& name) const {
        std::string folder = places.path_of(directory);
        return folder == "." ? name : cat(folder, "/", name);
    }
    std::string name_of(uint32_t inode) const {
        auto place = places.place_of(inode);
        return path(place.directory, places.name_at(place));
    }
    uint32_t inode_of(const std::string& name) const {
        uint32_t at = 1;
        for (const std::string& part : split(name, '/')) at = index.lookup(at, part);
        return at;
    }
    void saw(const std::string& name, uint64_t offset = 0) {
        guess.saw_read(inode_of(name), offset);
        finish();
    }
    void finish() {
        for (int steps = 0; guess.step(); ++steps) REQUIRE(steps < 1000);
    }
};

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("guesses: of a library the loader reads names, relocations and data", "[prefetch]") {
    ElfLoads loads = loads_of(library({"libfirst.so.1", "../x.so", "libsecond.so.2"}));
    CHECK(loads.parts == std::vector<ElfPart>{{0, relocations_at + relocations_size}, {data_at, data_size}});
    CHECK(loads.needed == std::vector<std::string>{"libfirst.so.1", "libsecond.so.2"});
    // As older linkers make it.
    CHECK(loads_of(library({}, true)).parts == loads.parts);
}

TEST_CASE("hostile: what is no library, or says what cannot be, has little to read", "[prefetch]") {
    CHECK(loads_of("").parts.empty());
    CHECK(loads_of("#!/bin/sh\n").parts.empty());
    std::string whole = library({"libfirst.so.1"});
    for (size_t size = 0; size < whole.size(); size += 13) CHECK(loads_of(whole.substr(0, size)).needed.size() <= 1);
    for (size_t at = 16; at < data_at + 0x80; at += at == 0x200 ? data_at - 0x200 : 1) {
        std::string bytes = whole;
        bytes[at] = '\xff';
        CHECK(loads_of(bytes).parts.size() <= 3);
        bytes.replace(at, 8, 8, '\xff');
        CHECK(loads_of(bytes).needed.size() <= 1);
    }
}

TEST_CASE("guesses: with a module of Python come those beside it, and the beginnings of packages below", "[prefetch]") {
    Scene scene({{"p/__init__.py", ""},
                 {"p/__pycache__/__init__.311.pyc", "x"},
                 {"p/__pycache__/a.311.pyc", "x"},
                 {"p/__pycache__/large.311.pyc", std::string(300 << 10, 'x')},
                 {"p/__pycache__/readme.txt", "x"},
                 {"p/sub/__init__.py", ""},
                 {"p/sub/__pycache__/__init__.311.pyc", "x"},
                 {"p/sub/__pycache__/b.311.pyc", "x"},
                 {"q/__pycache__/c.311.pyc", "x"}});
    scene.saw("p/__pycache__/__init__.311.pyc");
    CHECK(scene.read ==
          Names{"p/__pycache__/__init__.311.pyc", "p/__pycache__/a.311.pyc", "p/sub/__pycache__/__init__.311.pyc"});
    CHECK(scene.listed == Names{"p", "p/__pycache__", "p/sub", "p/sub/__pycache__"});
    CHECK(scene.looked_up.empty());
}

TEST_CASE("guesses: a name that packages do not have is looked for in the next one", "[prefetch]") {
    Scene scene({{"a/__pycache__/__init__.pyc", "x"},
                 {"b/__pycache__/__init__.pyc", "x"},
                 {"c/__pycache__/__init__.pyc", "x"},
                 {"c/there.so", "x"},
                 {"etc/file", ""}});
    for (const char* folder : {"a", "b", "etc"}) scene.guess.saw_missing(scene.inode_of(folder), "none.so");
    for (const char* folder : {"a", "b"}) scene.guess.saw_missing(scene.inode_of(folder), "there.so");
    scene.finish();
    scene.looked_up.clear();
    scene.guess.saw_missing(scene.inode_of("c"), "other.so");
    scene.finish();
    CHECK(scene.looked_up == Names{"c/none.so"});
    CHECK(scene.read.contains("c/__pycache__/__init__.pyc"));
    CHECK_FALSE(scene.listed.contains("etc"));
}

TEST_CASE("guesses: of other files two with one ending bring those like them", "[prefetch]") {
    Scene scene({{"fonts/a.ttf", "x"},
                 {"fonts/b.ttf", "x"},
                 {"fonts/c.ttf", "x"},
                 {"fonts/d.txt", "x"},
                 {"bin/a", "x"},
                 {"bin/b", "x"},
                 {"bin/c", "x"}});
    scene.saw("fonts/a.ttf");
    scene.saw("bin/a");
    scene.saw("bin/b");
    CHECK(scene.read.empty());
    scene.saw("fonts/b.ttf");
    CHECK(scene.read == Names{"fonts/a.ttf", "fonts/b.ttf", "fonts/c.ttf"});
}

TEST_CASE("guesses: with a library come those that it needs, by their links, from folders that libraries are of",
          "[prefetch]") {
    std::string large = library({"libc.so.1", "libloop.so"});
    large.resize(3 << 20);
    Scene scene({{"lib/liba.so.1.0", large},
                 {"ext/m.so", library({"liba.so.1", "libnone.so.7"})},
                 {"lib/liba.so.1", "-> liba.so.1.0"},
                 {"lib/libb.so", library({})},
                 {"lib/libc.so.1", library({"liba.so.1"})},
                 {"lib/libloop.so", "-> libloop.so"},
                 {"lib/libz.so", "x"},
                 {"package/__pycache__/c.pyc", "x"},
                 {"package/a.so", library({})},
                 {"package/b.so", library({})}});
    scene.saw("lib/libb.so");
    scene.saw("ext/m.so");
    CHECK(scene.read ==
          Names{"lib/libb.so", "ext/m.so", "lib/liba.so.1.0", cat("lib/liba.so.1.0 ", data_at), "lib/libc.so.1"});
    CHECK(scene.looked_up == Names{"lib/liba.so.1", "lib/liba.so.1.0", "lib/libc.so.1", "lib/libloop.so"});
    // Modules of a package come with those beside them.
    scene.read.clear();
    scene.saw("package/a.so");
    CHECK(scene.read == Names{"package/a.so", "package/b.so"});
    // Around what is read of a large one, once.
    scene.read.clear();
    scene.saw("lib/liba.so.1.0", (1 << 20) + 5000);
    CHECK(scene.read == Names{cat("lib/liba.so.1.0 ", 1 << 20)});
    scene.read.clear();
    scene.saw("lib/liba.so.1.0", (1 << 20) + 9000);
    CHECK(scene.read.empty());
}
