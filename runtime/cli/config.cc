// `berth config`: the settings that hold here and where they come from, and what is wrong with a file of settings.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/facts.hh"
#include "runtime/plan/site_file.hh"

namespace berth::cli {

namespace {

void print_text(const std::vector<plan::ShownKey>& keys) {
    size_t key_width = 0, value_width = 0;
    for (const plan::ShownKey& shown : keys) {
        key_width = std::max(key_width, shown.key.size());
        value_width = std::max(value_width, std::min<size_t>(shown.value.size(), 40));
    }
    for (const plan::ShownKey& shown : keys)
        std::printf("%-*s  %-*s  %s\n", static_cast<int>(key_width), shown.key.c_str(), static_cast<int>(value_width), shown.value.c_str(), shown.origin.text().c_str());
}

std::string json_origin(const plan::Site::Origin& origin) {
    if (!origin.variable.empty()) return cat(R"({"from":"environment","variable":)", json_text(origin.variable), "}");
    if (origin.file.empty()) return R"({"from":"default"})";
    return cat(R"({"from":"file","file":)", json_text(origin.file), R"(,"line":)", origin.line, "}");
}

void print_json(const std::vector<plan::ShownKey>& keys) {
    std::string out;
    for (const plan::ShownKey& shown : keys)
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"key":)", json_text(shown.key), R"(,"value":)", shown.value, R"(,"origin":)", json_origin(shown.origin), "}");
    std::printf("{\"keys\":[%s\n]}\n", out.c_str());
}

/// A mistake is an answer, not a failure of this program: it is printed with its line, and the exit code is 1.
int check(const std::string& path) {
    Fd file = sys::open_file(path, O_RDONLY);
    std::string text = sys::read_all(file.get(), 1 << 20, path);
    try {
        plan::parse_site(text, path);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", plan::shown_mistake(error.what(), text, path).c_str());
        return 1;
    }
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
    CLI::App app("Print the settings that hold here and where each comes from, or look through a file of settings.", "berth config");
    bool json = false;
    std::string path = site_path;
    auto* show = app.add_subcommand("show", "print every key with its value and origin: default, file and line, or environment variable");
    show->add_flag("--json", json, "for programs");
    auto* checking = app.add_subcommand("check", "print the first mistake with its line; the exit code is 1 when there is one");
    checking->add_option("file", path, cat("instead of ", site_path));
    app.require_subcommand(1);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    if (checking->parsed()) return check(path);
    std::vector<plan::ShownKey> keys = plan::shown_site(site_of_caller());
    json ? print_json(keys) : print_text(keys);
    return 0;
}

}  // namespace berth::cli
