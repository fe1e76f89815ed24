#include "runtime/squash/format/file_config.hh"

#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/records.hh"
#include "runtime/squash/format/super.hh"

namespace berth::squash {

namespace {

constexpr uint64_t alignment = 4096;
constexpr uint64_t size_limit = 4 << 20;
constexpr std::string_view form = "berth-config ", magic = "berth-config 1 ";

uint64_t aligned(uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

/// Calls `visit` with the key and the place of the value of each field.
template <typename Config, typename One, typename Many>
void visit_fields(Config& config, One one, Many many) {
    many("env", config.process.env);
    many("entrypoint", config.process.entrypoint);
    many("cmd", config.process.cmd);
    many("volume", config.process.volumes);
    one("workdir", config.process.working_dir);
    one("user", config.process.user);
    one("architecture", config.process.architecture);
    one("digest", config.digest);
    one("reference", config.reference);
}

std::optional<FileConfig> parse(std::string_view text) {
    FileConfig out;
    while (!text.empty()) {
        std::optional<plan::Record> record = plan::take_record(text, size_limit);
        if (!record) return std::nullopt;
        visit_fields(
            out,
            [&](std::string_view name, std::string& field) {
                if (name == record->key) field = record->value;
            },
            [&](std::string_view name, std::vector<std::string>& field) {
                if (name == record->key) field.emplace_back(record->value);
            });
    }
    return out;
}

std::string text_of(const FileConfig& config) {
    std::string out;
    auto add = [&](std::string_view key, const std::string& value) { plan::add_record(out, key, value); };
    auto add_all = [&](std::string_view key, const std::vector<std::string>& values) {
        for (const std::string& value : values) add(key, value);
    };
    visit_fields(config, add, add_all);
    return out;
}

}  // namespace

void append_config(int fd, const FileConfig& config, const std::string& what) {
    SquashFile file{fd, what};
    read_super(file);
    std::string text = text_of(config);
    std::string block = cat(magic, text.size(), "\n", text);
    block.resize(aligned(block.size()));
    if (text.size() > size_limit)
        throw Error(cat("writing ", what, ": the image's settings are larger than ", human_bytes(size_limit)));
    if (::lseek(fd, static_cast<off_t>(aligned(file.size)), SEEK_SET) < 0) throw SysError(cat("writing ", what));
    sys::write_all(fd, block, what);
}

std::optional<FileConfig> read_config(int fd, const std::string& what) {
    SquashFile file{fd, what};
    read_super(file);
    uint64_t start = aligned(file.size), end = static_cast<uint64_t>(sys::stat_of(fd, what).st_size);
    char head[64] = {};
    if (end < start + sizeof head || !sys::pread_exact(fd, head, start, what)) return std::nullopt;
    std::string_view line(head, sizeof head);
    size_t line_end = line.find('\n');
    uint64_t size = 0, number = 0;
    if (line.starts_with(form) && line_end != line.npos &&
        parse_number(line.substr(form.size(), line.find(' ', form.size()) - form.size()), UINT64_MAX, number) &&
        number > 1)
        throw Error(cat("reading the image's settings behind ", what, ": they have form ", number,
                        ", this berth reads 1; a newer release has written the file: use that, or write it anew by "
                        "berth save or import of this one"));
    if (!line.starts_with(magic) || line_end == line.npos ||
        !parse_number(line.substr(magic.size(), line_end - magic.size()), size_limit, size))
        return std::nullopt;
    std::string text(size, '\0');
    if (!sys::pread_exact(fd, text, start + line_end + 1, what)) return std::nullopt;
    return parse(text);
}

}  // namespace berth::squash
