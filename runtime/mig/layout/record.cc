#include "runtime/mig/layout/record.hh"

#include <initializer_list>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

/// A release that writes another form gives it another number.
constexpr std::string_view first_line = "berth-mig 1";
/// A record that ends without it was cut off.
constexpr std::string_view last_line = "end";
/// More than any GPU has.
constexpr size_t most_parts = 64;

[[noreturn]] void refuse(const std::string& line) {
    throw Error(cat("a record of berth-mig: '", printable(line), "' is not understood"));
}

void numbers(const std::vector<std::string>& words, const std::string& line, std::initializer_list<unsigned*> out) {
    if (words.size() != out.size() + 1) refuse(line);
    size_t i = 0;
    for (unsigned* number : out) {
        uint64_t value = 0;
        if (!parse_number(words[++i], UINT32_MAX, value)) refuse(line);
        *number = static_cast<unsigned>(value);
    }
}

void read_line(const std::string& line, Record& out) {
    std::vector<std::string> words = split(line, ' ');
    if (words[0] == "gpu" && words.size() == 2) {
        out.gpu = words[1];
    } else if (words[0] == "job") {
        numbers(words, line, {&out.job});
    } else if (words[0] == "instance" && out.first.size() < most_parts) {
        Instance& one = out.first.emplace_back();
        numbers(words, line, {&one.profile, &one.place.start, &one.place.size});
    } else if (words[0] == "compute" && !out.first.empty() && out.first.back().computes.size() < most_parts) {
        Compute& one = out.first.back().computes.emplace_back();
        numbers(words, line, {&one.profile, &one.place.start, &one.place.size});
    } else {
        refuse(line);
    }
}

}  // namespace

std::string record_text(const Record& record) {
    std::string out = cat(first_line, "\ngpu ", record.gpu, "\njob ", record.job, '\n');
    for (const Instance& one : record.first) {
        out += cat("instance ", one.profile, ' ', one.place.start, ' ', one.place.size, '\n');
        for (const Compute& part : one.computes)
            out += cat("compute ", part.profile, ' ', part.place.start, ' ', part.place.size, '\n');
    }
    return cat(out, last_line, '\n');
}

Record parse_record(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    if (lines.size() < 3 || lines.front() != first_line) refuse(lines.front());
    if (lines[lines.size() - 2] != last_line || !lines.back().empty())
        throw Error("a record of berth-mig: it was cut off");
    Record out;
    for (size_t i = 1; i + 2 < lines.size(); ++i) read_line(lines[i], out);
    if (out.gpu.empty()) throw Error("a record of berth-mig: it names no GPU");
    return out;
}

}  // namespace berth::mig
