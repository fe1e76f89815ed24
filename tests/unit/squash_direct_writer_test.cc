#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "runtime/squash/write/direct_writer.hh"
#include "tests/catch.hh"

using namespace berth;
using squash::DirectWriter;

namespace {

/// A file that is gone with its descriptor, on a disk where there is one.
struct Scratch {
    Scratch() {
        char name[] = "/var/tmp/berth-direct-writer.XXXXXX";
        fd = Fd(::mkstemp(name));
        ::unlink(name);
    }
    std::string content() const {
        struct stat status {};
        REQUIRE(::fstat(fd.get(), &status) == 0);
        std::string out(static_cast<size_t>(status.st_size), 0);
        REQUIRE(::pread(fd.get(), out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()));
        return out;
    }
    Fd fd;
};

void put(std::string& model, uint64_t offset, const std::string& data) {
    if (model.size() < offset + data.size()) model.resize(offset + data.size());
    model.replace(offset, data.size(), data);
}

}  // namespace

TEST_CASE("what is written round the page cache is what is read, in any order of writes") {
    Scratch scratch;
    DirectWriter file(scratch.fd.get());
    std::mt19937 random(7);
    std::string model;
    for (int turn = 0; turn < 400; ++turn) {
        uint64_t offset = model.size();
        if (turn % 7 == 6) offset -= std::min<uint64_t>(offset, random() % 3'000'000);
        std::string data(1 + random() % 300'000, static_cast<char>('a' + turn % 26));
        REQUIRE(file.write(offset, data) == 0);
        put(model, offset, data);
        if (turn % 50 == 49) {
            uint64_t size = model.size() - random() % std::min<uint64_t>(model.size(), 2'000'000);
            REQUIRE(file.resize(size) == 0);
            model.resize(size);
        }
        uint64_t from = random() % model.size();
        std::string seen(std::min<uint64_t>(model.size() - from, 1 + random() % 2'000'000), 0);
        REQUIRE(file.read(from, seen) == 0);
        REQUIRE(seen == model.substr(from, seen.size()));
    }
    REQUIRE(file.flush() == 0);
    REQUIRE(scratch.content() == model);
}

TEST_CASE("a read behind the end of a file that is written round the page cache is an error") {
    Scratch scratch;
    DirectWriter file(scratch.fd.get());
    REQUIRE(file.write(0, "abc") == 0);
    char byte = 0;
    REQUIRE(file.read(3, {&byte, 1}) == EIO);
}
