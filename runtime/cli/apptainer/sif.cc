// `apptainer sif`, `verify` and `key`: SIF files, and what was signed in them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/format/sif_text.hh"

namespace berth::cli {

namespace {

Fd opened(const std::string& path) {
    return sys::open_file(path, O_RDONLY | O_NONBLOCK);
}

const squash::sif::Descriptor& object_of(const squash::SifObjects& sif, uint64_t id, const std::string& path) {
    auto found = std::ranges::find_if(sif.used, [&](const auto& one) { return one.id == id; });
    if (found == sif.used.end()) throw Error(cat(printable(path, 4096), " has no object ", id));
    return *found;
}

void dump(int file, const squash::sif::Descriptor& object, const std::string& path) {
    std::string part;
    for (int64_t at = 0; at < object.size; at += static_cast<int64_t>(part.size())) {
        part.resize(static_cast<size_t>(std::min<int64_t>(1 << 20, object.size - at)));
        if (!sys::pread_exact(file, part, static_cast<uint64_t>(object.offset + at), printable(path, 4096)))
            throw Error(cat(printable(path, 4096), " became shorter while it was read"));
        sys::write_all(STDOUT_FILENO, part, "standard output");
    }
}

/// `sif list FILE`, `header FILE`, `info ID FILE`, `dump ID FILE`.
int show(int argc, char** argv) {
    std::string word = argv[0], path, number;
    bool of_object = word == "info" || word == "dump";
    CommandLine line("Print what is in a SIF file.", cat("apptainer sif ", word));
    if (of_object) line.argument("ID", number, "number of an object, as apptainer sif list shows it").required();
    line.argument("FILE", path, "the SIF file").required();
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    Fd file = opened(path);
    squash::SifObjects sif = squash::read_sif(file.get(), path);
    uint64_t id = 0;
    if (of_object && !parse_number(number, UINT32_MAX, id))
        throw Error(cat("apptainer sif ", word, ": ", printable(number), " is no number of an object"));
    if (word == "dump") return dump(file.get(), object_of(sif, id, path), path), 0;
    std::string text = word == "header" ? squash::sif_header_text(sif.header)
                       : word == "list" ? squash::sif_list_text(sif.used)
                                        : squash::sif_object_text(object_of(sif, id, path));
    std::fputs(text.c_str(), stdout);
    return 0;
}

}  // namespace

int apptainer_sif(int argc, char** argv, const ApptainerSettings&) {
    std::string word = argc > 1 ? argv[1] : "";
    for (const char* known : {"list", "header", "info", "dump"})
        if (word == known) return show(argc - 1, argv + 1);
    if (word == "add" || word == "del" || word == "new" || word == "setprim")
        throw Error(cat("apptainer sif ", word, ": SIF files are not changed; write another one by apptainer build"));
    throw Error("apptainer sif: write list, header, info or dump");
}

int apptainer_verify(int argc, char** argv, const ApptainerSettings& settings) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (settings.loudness <= Loudness::quiet) words.emplace_back("--quiet");
    become_pull_program("sif-verify", words);
}

int apptainer_key(int argc, char** argv, const ApptainerSettings& settings) {
    std::string word = argc > 1 ? argv[1] : "";
    if (word != "list" && word != "import" && word != "remove")
        throw Error(cat("apptainer key: write list, import or remove",
                        word.empty() ? "" : cat(", not ", printable(word)), "; keys are made, found and sent by gpg"));
    std::vector<std::string> words(argv + 2, argv + argc);
    if (settings.loudness <= Loudness::quiet) words.emplace_back("--quiet");
    become_pull_program(cat("sif-key-", word), words);
}

}  // namespace berth::cli
