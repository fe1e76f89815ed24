// `berth migrate`: a berth.conf and hooks from the settings of Enroot and Pyxis, and what of them has no place in it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/migrate_files.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"

namespace berth::cli {

namespace {

struct Options {
    MigrationSource from;
    std::string output = site_path;
    bool dry_run = false, force = false;
};

/// The file under another name, until it is whole.
class Unfinished {
  public:
    explicit Unfinished(const std::string& path) : name_(cat(path, ".", ::getpid(), ".new")) {}
    ~Unfinished() { ::unlink(name_.c_str()); }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    const std::string& name() const { return name_; }

  private:
    std::string name_;
};

void check_absent(const Options& options, const std::string& path) {
    struct stat info {};
    if (!options.force && !options.dry_run && ::lstat(path.c_str(), &info) == 0)
        throw Error(cat("writing ", printable(path, 4096),
                        ": it exists already; read what --dry-run prints, then remove it or use --force"));
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

/// For all to read, as a node's settings have to be. A node reads the file that was there, or this one, and nothing in
/// between.
void write_whole(const std::string& path, const std::string& text, mode_t mode) {
    std::string shown = printable(path, 4096);
    if (std::string folder = folder_of(path); folder.size() > 1)
        sys::make_directories(folder.substr(0, folder.size() - 1), 0755);
    Unfinished unfinished(path);
    Fd file = sys::try_open_at(AT_FDCWD, unfinished.name(), O_WRONLY | O_CREAT | O_EXCL, mode);
    if (!file) throw SysError(cat("writing ", shown, " (root may)"));
    sys::write_all(file.get(), text, shown);
    if (::fsync(file.get()) != 0) throw SysError("writing " + shown);
    if (::rename(unfinished.name().c_str(), path.c_str()) != 0) throw SysError("writing " + shown);
}

/// Of a program that came of a hook of Enroot's.
std::string path_of(const Options& options, const migrate::Hook& hook) {
    return cat(folder_of(options.output), "hooks.d/", hook.name);
}

void write_files(const Options& options, const migrate::Migration& migration) {
    std::vector<std::string> mistakes = plan::site_mistakes(migration.conf, options.output);
    if (!mistakes.empty())
        throw Error(cat("writing ", printable(options.output, 4096), ": berth.conf would not take it: ",
                        mistakes.front()));
    for (const migrate::Hook& hook : migration.hooks) check_absent(options, path_of(options, hook));
    ::umask(022);
    for (const migrate::Hook& hook : migration.hooks) write_whole(path_of(options, hook), hook.text, 0755);
    write_whole(options.output, migration.conf, 0644);
}

void print(const migrate::Migration& migration, const Options& options) {
    using migrate::Fate;
    for (const migrate::Finding& finding : migration.findings) std::printf("%s\n", finding.text().c_str());
    std::printf("%zu looked at: %zu kept, %zu changed, %zu without a place\n", migration.findings.size(),
                migration.count(Fate::kept), migration.count(Fate::changed), migration.count(Fate::unplaced));
    auto show = [&](const std::string& path, const std::string& text) {
        std::string shown = printable(path, 4096);
        if (options.dry_run)
            std::printf("%s would be:\n\n%s", shown.c_str(), text.c_str());
        else
            std::printf("%s: written\n", shown.c_str());
    };
    for (const migrate::Hook& hook : migration.hooks) show(path_of(options, hook), hook.text + "\n");
    show(options.output, migration.conf);
}

}  // namespace

int migrate(int argc, char** argv) {
    CommandLine line("Write a berth.conf, and hooks, from the settings of Enroot and Pyxis and from those of podman, "
                     "docker and containerd about registries, and print what becomes of each. The exit code is 1 when "
                     "one has no place.",
                     "berth migrate");
    Options options;
    line.option("--enroot", options.from.enroot, "the folder of enroot.conf, instead of /etc/enroot")
        .completed_by(Completion::files);
    line.option("--plugstack", options.from.plugstack, "the file with Pyxis' line, instead of Slurm's plugstack.conf")
        .completed_by(Completion::files);
    line.option("--user", options.from.users, "a user's ~/.config/enroot, which is looked at too; can be repeated")
        .completed_by(Completion::files);
    line.option("--registries", options.from.registries,
                "the folder of containers/, docker/ and containerd/, instead of /etc")
        .completed_by(Completion::files);
    line.option("-o,--output", options.output, cat("the file to write, instead of ", site_path))
        .completed_by(Completion::files);
    line.flag("--dry-run", options.dry_run, "print the files, and write nothing");
    line.flag("--force", options.force, "replace a file that is there");
    if (auto code = line.parse(argc, argv)) return *code;
    check_absent(options, options.output);
    migrate::Migration migration = migrate::migrated(read_settings(options.from), migrate::site_reader);
    if (!options.dry_run) write_files(options, migration);
    print(migration, options);
    return migration.count(migrate::Fate::unplaced) == 0 ? 0 : 1;
}

}  // namespace berth::cli
