// `berth config`: the settings that hold here and where they come from, and what is wrong with a file of settings.
#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"

namespace berth::cli {

namespace {

void print_text(const std::vector<plan::ShownKey>& keys) {
    size_t key_width = 0, value_width = 0;
    for (const plan::ShownKey& shown : keys) {
        key_width = std::max(key_width, shown.key.size());
        value_width = std::max(value_width, std::min<size_t>(shown.value.size(), 40));
    }
    for (const plan::ShownKey& shown : keys)
        std::printf("%-*s  %-*s  %s\n", static_cast<int>(key_width), shown.key.c_str(), static_cast<int>(value_width),
                    shown.value.c_str(), shown.origin.text().c_str());
}

std::string json_origin(const plan::Site::Origin& origin) {
    if (!origin.variable.empty()) return cat(R"({"from":"environment","variable":)", json_text(origin.variable), "}");
    if (origin.file.empty()) return R"({"from":"default"})";
    return cat(R"({"from":"file","file":)", json_text(origin.file), R"(,"line":)", origin.line, "}");
}

void print_json(const std::vector<plan::ShownKey>& keys) {
    std::string out;
    for (const plan::ShownKey& shown : keys)
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"key":)", json_text(shown.key), R"(,"value":)", shown.value,
                   R"(,"origin":)", json_origin(shown.origin), "}");
    std::printf("{\"keys\":[%s\n]}\n", out.c_str());
}

/// Mistakes are an answer, not a failure of this program: they are printed with their lines, and the exit code is 1.
int check(const std::string& path) {
    Fd file = sys::open_file(path, O_RDONLY);
    std::string text = sys::read_all(file.get(), 1 << 20, path);
    std::vector<std::string> mistakes = plan::site_mistakes(text, path);
    for (const std::string& mistake : mistakes)
        std::fprintf(stderr, "%s\n", plan::shown_mistake(mistake, text, path).c_str());
    if (!mistakes.empty()) return 1;
    try {
        check_site_owner(file.get(), path);
    } catch (const Error& error) {
        bool installed = path == site_path;
        std::fprintf(stderr, "%s%s\n", installed ? "" : "note: it would be refused as the site's file: ", error.what());
        if (installed) return 1;
    }
    std::printf("%s: no mistakes\n", printable(path, 4096).c_str());
    return 0;
}

}  // namespace

int config(int argc, char** argv) {
    CommandLine line("Print the settings and their origin, or check a file.",
                     "berth config");
    bool json = false;
    std::string path = site_path;
    CommandLine show = line.subcommand(
        "show", "print every key with its value and origin: default, file and line, or environment variable");
    show.flag("--json", json, "print JSON");
    CommandLine checking =
        line.subcommand("check", "print all mistakes with their lines; the exit code is 1 when there is one");
    checking.argument("file", path, cat("instead of ", site_path));
    if (auto code = line.parse(argc, argv)) return *code;
    if (checking.chosen()) return check(path);
    std::vector<plan::ShownKey> keys = plan::shown_site(site_of_caller());
    json ? print_json(keys) : print_text(keys);
    return 0;
}

}  // namespace berth::cli
