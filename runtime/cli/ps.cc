// `berth ps`: the named containers of the caller.
#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/data_path.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/sandbox/processes.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

namespace {

struct Row {
    std::string name;
    uint32_t job = 0;                 ///< whose steps alone share the name; 0: all share it
    std::string scope;                ///< see ContainerFolder
    std::string data_path;            ///< ENROOT_DATA_PATH, where it chooses the scope; else empty
    plan::ContainerRecord record;
    std::string trouble;              ///< why the record cannot be read; else empty
    std::optional<int64_t> running;   ///< since, in seconds since 1970
    std::vector<pid_t> pids;
    uint64_t bytes = 0;
    uint64_t memory = 0;              ///< bytes that its file server has; 0: it does not run, or does not say
};

Row row_of(const ContainerFolder& folder, const std::string& name, uint32_t job) {
    Row row;
    row.name = name;
    row.job = job;
    row.scope = folder.scope();
    if (enroot::is_scope_of_path(row.scope)) row.data_path = noted_data_path(folder, name).text;
    try {
        if (auto record = folder.find(name)) row.record = *record;
        row.bytes = bytes_on_disk(folder.upper(name).get());
        Fd connection = folder.connect(name);
        auto info = connection ? ask_for_status(connection.get()) : std::nullopt;
        if (!info) return row;
        row.running = info->started;
        row.memory = info->memory;
        row.pids = sandbox::inhabitants(sys::open_file("/proc", O_RDONLY | O_DIRECTORY).get(), info->user_namespace);
    } catch (const Error& error) {
        // The others are listed all the same.
        row.trouble = error.what();
    }
    return row;
}

std::string pids_text(const Row& row, const char* between) {
    std::string out;
    for (pid_t pid : row.pids) out += cat(out.empty() ? "" : between, pid);
    return out;
}

void print_json(const std::vector<Row>& rows) {
    std::string out;
    for (const Row& row : rows)
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"name":)", json_text(row.name), R"(,"job":)",
                   row.job == 0 ? "null" : std::to_string(row.job), R"(,"scope":)", json_text(row.scope),
                   R"(,"data_path":)", row.data_path.empty() ? "null" : json_text(row.data_path), R"(,"image":)",
                   json_text(row.record.image), R"(,"digest":)", json_text(row.record.digest), R"(,"created":)",
                   json_text(iso_time(row.record.created)), R"(,"running":)", row.running ? "true" : "false",
                   R"(,"since":)", row.running ? json_text(iso_time(*row.running)) : "null", R"(,"pids":[)",
                   pids_text(row, ","), R"(],"bytes":)", row.bytes, R"(,"memory":)",
                   row.memory == 0 ? "null" : std::to_string(row.memory),
                   row.trouble.empty() ? "" : R"(,"error":)" + json_text(row.trouble), "}");
    std::printf("{\"containers\":[%s\n]}\n", out.c_str());
}

/// As `berth rm --scope` takes it.
std::string scope_text(const Row& row) {
    if (row.job != 0 || row.scope == global_scope) return "-";
    return row.data_path.empty() ? row.scope : printable(row.data_path, 4096);
}

void print_text(const std::vector<Row>& rows, bool with_scopes) {
    constexpr const char* form = "%-20s %-8s %-40s %-12s %-16s %-16s %10s %10s  %s%s%s\n";
    std::printf(form, "NAME", "JOB", "IMAGE", "DIGEST", "CREATED", "RUNS SINCE", "SIZE", "MEMORY",
                with_scopes ? "SCOPE" : "",
                with_scopes ? "  " : "", "PIDS");
    for (const Row& row : rows) {
        if (!row.trouble.empty()) std::fprintf(stderr, "berth: %s\n", row.trouble.c_str());
        std::printf(form, row.name.c_str(), row.job == 0 ? "-" : std::to_string(row.job).c_str(),
                    printable(row.record.image, 1024).c_str(),
                    row.record.digest.empty() ? "-" : short_digest(row.record.digest).c_str(),
                    shown_time(row.record.created).c_str(), row.running ? shown_time(*row.running).c_str() : "-",
                    human_bytes(row.bytes).c_str(), row.memory == 0 ? "-" : human_bytes(row.memory).c_str(),
                    with_scopes ? scope_text(row).c_str() : "",
                    with_scopes ? "  " : "", pids_text(row, " ").c_str());
    }
}

/// Those of steps and `berth run` first, and then, where all are wanted, what the program enroot has made.
std::vector<Row> rows_in(const ContainerFolder& folder, bool all) {
    std::vector<Row> rows;
    auto add = [&](const std::string& scope, uint32_t job) {
        ContainerFolder own = ContainerFolder::open(folder.path(), scope);
        for (const std::string& name : own.names()) rows.push_back(row_of(own, name, job));
    };
    add(global_scope, 0);
    for (uint32_t job : folder.jobs()) add(job_scope(job), job);
    for (const std::string& scope : folder.scopes())
        if (enroot::is_scope_of_program(scope) ? all : enroot::is_scope_of_path(scope)) add(scope, 0);
    return rows;
}

}  // namespace

int ps(int argc, char** argv) {
    CommandLine line("List the named containers, those that run and those that do not.", "berth ps");
    bool json = false, all = false;
    line.flag("--json", json, "print JSON");
    line.flag("-a,--all", all, "those that the program enroot has made, too, with the scopes of the names");
    if (auto code = line.parse(argc, argv)) return *code;
    std::vector<Row> rows = rows_in(containers_of_caller(), all);
    bool with_scopes = all || std::ranges::any_of(rows, [](const Row& row) { return !row.data_path.empty(); });
    json ? print_json(rows) : print_text(rows, with_scopes);
    return 0;
}

}  // namespace berth::cli
