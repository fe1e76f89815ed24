#include "runtime/squash/format/part_sums.hh"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr size_t sums_in_line = 64;

/// 0, or -EIO.
int read_exactly(int fd, std::span<char> out, uint64_t offset) {
    while (!out.empty()) {
        ssize_t got =
            sys::uninterrupted([&] { return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset)); });
        if (got <= 0) return -EIO;
        out = out.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
    }
    return 0;
}

uint64_t chunks_of(const Extent& place) {
    return (place.size + PartSums::chunk - 1) / PartSums::chunk;
}

bool take_number(std::string_view text, int base, uint64_t& out) {
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out, base);
    return problem == std::errc() && end == text.data() + text.size();
}

bool take_sums(std::string_view text, std::vector<uint64_t>& out) {
    for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
        end = text.find(' ');
        if (uint64_t sum = 0; take_number(text.substr(0, end), 16, sum))
            out.push_back(sum);
        else
            return false;
    }
    return true;
}

std::string hex(uint64_t number) {
    char text[16];
    return {text, std::to_chars(text, std::end(text), number, 16).ptr};
}

}  // namespace

void PartSums::add_sums(std::string_view data, std::vector<uint64_t>& out) const {
    for (; !data.empty(); data.remove_prefix(std::min<size_t>(chunk, data.size())))
        out.push_back(siphash(key, data.substr(0, chunk)));
}

/// `out` is as large as some chunks, from that with this number on.
int PartSums::read_chunks(int fd, const Part& part, uint64_t number, std::span<char> out) const {
    if (int problem = read_exactly(fd, out, part.place.offset + number * chunk)) return problem;
    for (; !out.empty(); ++number, out = out.subspan(std::min<size_t>(chunk, out.size())))
        if (siphash(key, {out.data(), std::min<size_t>(chunk, out.size())}) != part.sums[number]) return -EIO;
    return 0;
}

int PartSums::read(int fd, std::span<char> out, uint64_t offset) const {
    auto found = std::ranges::find_if(parts, [&](const Part& part) {
        const Extent& place = part.place;
        return offset >= place.offset && offset - place.offset <= place.size &&
               out.size() <= place.size - (offset - place.offset);
    });
    if (found == parts.end()) return -EIO;
    uint64_t at = offset - found->place.offset;
    while (!out.empty()) {
        uint64_t number = at / chunk, start = number * chunk;
        size_t skip = at - start, done = out.size() - out.size() % chunk;
        // The last one may be shorter.
        if (out.size() == found->place.size - at) done = out.size();
        if (skip == 0 && done > 0) {
            if (int problem = read_chunks(fd, *found, number, out.first(done))) return problem;
        } else {
            char buffer[chunk];
            std::span<char> whole(buffer, std::min<uint64_t>(chunk, found->place.size - start));
            if (int problem = read_chunks(fd, *found, number, whole)) return problem;
            done = std::min(out.size(), whole.size() - skip);
            std::memcpy(out.data(), buffer + skip, done);
        }
        out = out.subspan(done);
        at += done;
    }
    return 0;
}

std::string PartSums::text() const {
    std::string out = cat("key ", hex(key.first), " ", hex(key.second), "\ncontent ", content, "\n");
    for (const Part& part : parts) {
        out += cat("part ", part.place.offset, " ", part.place.size, "\n");
        for (size_t i = 0; i < part.sums.size(); ++i)
            out += cat(i % sums_in_line == 0 ? "sums " : " ", hex(part.sums[i]),
                       i % sums_in_line == sums_in_line - 1 || i + 1 == part.sums.size() ? "\n" : "");
    }
    return out;
}

bool PartSums::take_line(std::string_view line) {
    constexpr std::string_view start = "sums ";
    if (line.starts_with(start) && !parts.empty()) return take_sums(line.substr(start.size()), parts.back().sums);
    std::vector<std::string> words = split(line, ' ');
    uint64_t first = 0, second = 0;
    int base = words[0] == "part" ? 10 : 16;
    bool is_pair = words.size() == 3 && take_number(words[1], base, first) && take_number(words[2], base, second);
    if (words[0] == "content" && words.size() == 2) return content = words[1], true;
    if (words[0] == "key" && is_pair) return key = {first, second}, true;
    if (words[0] == "part" && is_pair) return parts.push_back({{first, second}, {}}), true;
    return false;
}

bool PartSums::is_whole() const {
    return !parts.empty() && std::ranges::all_of(parts, [](const Part& part) {
        return part.place.size > 0 && part.sums.size() == chunks_of(part.place);
    });
}

}  // namespace berth::squash
