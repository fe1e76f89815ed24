// The command line of `berth import`.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/spelling.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/commands/deadline.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/commands/save_process.hh"
#include "runtime/pull/export/import.hh"
#include "runtime/pull/export/save.hh"
#include "runtime/pull/image/daemons.hh"
#include "runtime/pull/image/open_source.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/pull/transfer/pull_event.hh"
#include "runtime/squash/format/image_file.hh"

namespace berth::pull {

namespace {

struct ImportArguments {
    std::string store, site, image, file, arch;
    std::string policy = "newer";
    std::vector<std::string> plain_http;
    std::string compression;
    bool quiet = false, of_apptainer = false;
    ImportOptions options;
};

void declare(CommandLine& line, ImportArguments& arguments) {
    line.option("--store", arguments.store, "directory of the store").required().hidden();
    line.option("--site", arguments.site, "site file, for the settings of registries").hidden();
    line.option("--plain-http", arguments.plain_http, "registry without TLS").hidden();
    line.option("--policy", arguments.policy, "newer, missing, always or never")
        .completed_by({"newer", "missing", "always", "never"});
    line.option("-o,--output", arguments.file, "the file to write").required().completed_by(Completion::files);
    line.option("--arch", arguments.arch, "architecture of the image: arm64, x86_64, arm/v7 ...; that of this machine");
    line.flag("--force", arguments.options.force, "replace an existing file");
    line.flag("-q,--quiet", arguments.quiet, "print nothing but the digest");
    line.flag("--of-apptainer", arguments.of_apptainer, "").hidden();
    line.flag("--sif", arguments.options.sif, "a SIF file, as for every name that ends in .sif");
    line.option("--compression", arguments.compression,
                "zstd, lz4, gzip or none; without it as the image is stored, of a SIF file gzip")
        .completed_by({"zstd", "lz4", "gzip", "none"});
    line.flag("--plain", arguments.options.plain,
              "without the files for Enroot (/etc/environment, /etc/rc) or for Apptainer (/.singularity.d)");
    line.argument("image", arguments.image,
                  "REGISTRY/NAME:TAG, NAME@sha256:..., or a path: a squashfs or SIF file, an archive, a directory")
        .required();
}

/// The form of the file, as its name and the words of the command line have it.
void read_form(ImportArguments& arguments) {
    ImportOptions& options = arguments.options;
    options.sif = options.sif || arguments.file.ends_with(".sif");
    if (arguments.compression.empty()) return;
    options.compression = plan::parse_word<plan::LayerCodec>(arguments.compression);
    if (!options.compression)
        throw Error(cat("--compression ", printable(arguments.compression), ": write zstd, lz4, gzip or none"));
}

Options options_of(const ImportArguments& arguments, const plan::Reference& reference, const plan::Site& site) {
    std::vector<std::string> environment = environment_of_this_process();
    Options out;
    out.policy = policy_of(arguments.policy);
    out.limits = pull_limits(site);
    out.signatures = signature_rules(site);
    Logins logins(environment, site);
    out.artifacts = artifact_rules(site, logins);
    out.registry = options_for(reference, "", site, logins);
    out.registry.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    set_daemon(out, reference, environment);
    if (oci::Machine machine = oci::machine_named(arguments.arch);
        !arguments.arch.empty() && machine != oci::this_machine())
        out.machine = std::move(machine);
    return out;
}

/// A file that is an image as it lies there.
std::string copied(const ImportArguments& arguments, const plan::Reference& reference, const plan::Site& site, int file,
                   Output& output, PullEvent& event) {
    check_opened_image(site, reference, file);
    std::string digest = import_file(file, reference.path, arguments.file, arguments.options, output.meter());
    event.imported(digest, arguments.file);
    return digest;
}

/// A root file system in a directory. For a process of one thread.
int import_directory(const ImportArguments& arguments, const plan::Reference& reference, const plan::Site& site) try {
    check_image_here(site, reference);
    check_opened_image(site, reference, sys::open_file(reference.path, O_RDONLY | O_DIRECTORY).get());
    read_everything();
    abandon_at_signals();
    SaveRequest request;
    request.image_file = request.name = reference.path;
    save_container(request, arguments.file, arguments.options);
    return 0;
} catch (const Error& problem) {
    if (!arguments.of_apptainer) throw;
    std::fprintf(stderr, "FATAL:   %s\n", problem.what());
    return exit_of_apptainer;
}

bool is_directory(const plan::Reference& reference) {
    struct stat st {};
    return reference.kind == plan::Reference::Kind::path && ::stat(reference.path.c_str(), &st) == 0 &&
           S_ISDIR(st.st_mode);
}

/// What a path names: an archive comes by way of the store, as every image but a squashfs or SIF file.
Fd file_of(const plan::Reference& reference) {
    std::string what = cat("importing ", printable(reference.path, 4096));
    Fd out = sys::open_file(reference.path, O_RDONLY | O_NONBLOCK);
    if (!S_ISREG(sys::stat_of(out.get(), what).st_mode))
        throw Error(cat(what, ": it is neither a regular file nor a directory"));
    return out;
}

/// Returns the digest. The event is told of what is done, but for an error.
std::string imported(const ImportArguments& arguments, plan::Reference reference, const plan::Site& site,
                     Output& output, PullEvent& event) {
    store::Store store = store::Store::open(arguments.store);
    check_image_here(site, reference);
    if (reference.kind == plan::Reference::Kind::path) {
        Fd file = file_of(reference);
        std::string kind = squash::find_squashfs(file.get(), reference.path).size > 0 ? "" : archive_kind(file.get());
        if (kind.empty()) return copied(arguments, reference, site, file.get(), output, event);
        reference = as_archive(store, reference, kind, site.limits.pull_memory);
        check_image_here(site, reference);
    }
    Deadline deadline(site, output);
    Digest digest = pull(store, reference, options_of(arguments, reference, site), output.meter());
    event.pulled(digest.text());
    import_image(store, digest, reference, arguments.file, arguments.options, output.meter());
    event.imported(digest.text(), arguments.file);
    return digest.text();
}

}  // namespace

int import_command(int argc, char** argv) {
    CommandLine line("Write an image as one squashfs or SIF file.", "berth import");
    ImportArguments arguments;
    declare(line, arguments);
    if (auto code = line.parse(argc, argv)) return *code;
    read_form(arguments);
    plan::Reference reference =
        plan::with_absolute_path(plan::parse_reference(arguments.image), std::filesystem::current_path(),
                                 caller_of_this_process().home);
    plan::Site site = site_of(arguments.site, environment_of_this_process());
    if (is_directory(reference)) return import_directory(arguments, reference, site);
    Output output({.quiet = arguments.quiet, .of_apptainer = arguments.of_apptainer}, reference.text());
    PullEvent event(site, plan::Event::Kind::import, arguments.image, output.meter());
    try {
        output.done(imported(arguments, reference, site, output, event));
        return 0;
    } catch (const Error& problem) {
        event.failed(problem);
        if (!arguments.of_apptainer) throw;
        output.failed(problem);
        return exit_of_apptainer;
    }
}

}  // namespace berth::pull
