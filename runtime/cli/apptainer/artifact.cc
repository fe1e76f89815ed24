// SIF files of registries, as berth-pull brings them into the store, and there.
#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/words.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/once.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/extracted.hh"

namespace berth::cli {

namespace {

/// What `berth-pull sif` reports.
struct Brought {
    std::optional<Digest> digest;
    std::string error;
    int code = exit_failure;

    void take(const std::string& line, const ApptainerSettings& settings) {
        std::string word = line.substr(0, line.find(' ')), rest = line.substr(std::min(line.size(), word.size() + 1));
        if (word == "progress") tell_note(settings, rest);
        if (word == "image") digest = Digest::parse(rest);
        if (word != "error") return;
        uint64_t number = 0;
        std::string first = rest.substr(0, rest.find(' '));
        if (parse_number(first, 255, number) && number != 0) code = static_cast<int>(number);
        error = printable(rest.substr(std::min(rest.size(), first.size() + 1)), 8192);
    }
};

}  // namespace


namespace {

Brought brought_by(const std::string& command, const plan::Site& site, const store::Store& store,
                   std::vector<std::string> options, const ApptainerSettings& settings) {
    options.insert(options.begin(), "--report");
    if (settings.loudness >= Loudness::normal) options.insert(options.begin(), "--bars");
    Child child(pull_program(), pull_program_words(command, site, store, options));
    Brought out;
    read_lines(child, {}, [&](const std::string& line) { return out.take(line, settings), true; });
    int code = child.wait();
    if (out.error.empty() && (code != 0 || !out.digest))
        out.error = cat(command, ": berth-pull ", silent_end(code), "; run it by hand to see more");
    if (!out.error.empty()) throw Error(out.error, out.code);
    return out;
}

struct PushWords {
    std::string file, uri, library, description, user, password, docker_host, login_file;
    std::vector<std::string> annotations;
    bool unsigned_too = false, plain_http = false;
};

void declare(CommandLine& line, PushWords& push) {
    line.option("--annotation", push.annotations, "NAME=VALUE of the artifact");
    line.option("-D,--description", push.description, "the annotation org.opencontainers.image.description");
    line.flag("--no-https", push.plain_http, "speak to the registry without TLS");
    line.flag("--nohttps", push.plain_http, "").hidden();
    line.flag("-U,--allow-unsigned", push.unsigned_too, "accepted: oras:// takes files without signatures in any case");
    line.option("--library", push.library, "").hidden();
    line.option("--docker-username", push.user, "").hidden();
    line.option("--docker-password", push.password, "").hidden();
    line.option("--docker-host", push.docker_host, "").hidden();
    line.option("--authfile", push.login_file, "").hidden();
    line.argument("FILE", push.file, "the SIF file").required();
    line.argument("URI", push.uri, "oras://REGISTRY/NAME[:TAG]").required();
}

void refuse_logins(const PushWords& push) {
    apptainer::Given given;
    const std::pair<const char*, const std::string*> all[] = {{"docker-username", &push.user},
                                                              {"docker-password", &push.password},
                                                              {"docker-host", &push.docker_host},
                                                              {"authfile", &push.login_file}};
    for (const auto& [name, value] : all)
        if (!value->empty()) given[name] = {*value};
    apptainer::refuse_flags(given, false);
}

/// What is behind oras://.
std::string destination_of(const PushWords& push) {
    std::string scheme = push.uri.substr(0, push.uri.find(':'));
    if (scheme == push.uri) throw Error(cat(printable(push.uri, 1024), " is no URI; write oras://REGISTRY/NAME:TAG"));
    if (scheme == "library" || !push.library.empty())
        throw Error("library://: there is no library; write oras://REGISTRY/NAME:TAG");
    if (scheme == "docker")
        throw Error(
            "docker://: a SIF file is no image in layers; write oras://, or push the image by skopeo or podman");
    if (scheme != "oras") throw Error(cat("Unsupported transport type: ", printable(scheme), "; write oras://"));
    std::string out = apptainer::artifact_of(push.uri);
    if (out.empty()) throw Error("write oras://REGISTRY/NAME:TAG");
    return out;
}

std::vector<std::string> annotations_of(const PushWords& push, const ApptainerSettings& settings) {
    std::vector<std::string> out;
    for (const std::string& text : push.annotations) {
        if (text.find('=') == text.npos)
            tell_warning(settings, cat("Value missing for \"", printable(text, 1024), "\", not setting"));
        else
            out.insert(out.end(), {"--annotation", text});
    }
    if (!push.description.empty())
        out.insert(out.end(), {"--annotation", "org.opencontainers.image.description=" + push.description});
    return out;
}

}  // namespace

std::string opened_as(const std::string& image, const ApptainerSettings& settings) {
    std::string artifact = apptainer::artifact_of(image);
    if (artifact.empty()) return image;
    plan::Site site = site_of_caller();
    store::Store store = open_callers_store(site);
    Brought brought = brought_by("sif", site, store, {"--policy", plan::word_of(site.store.pull), artifact}, settings);
    std::string path = store::sif_path(store, *brought.digest);
    if (path.empty())
        throw Error(
            cat("pulling ", printable(image, 1024), ": it has been removed from the store meanwhile; try again"));
    return path;
}

int apptainer_push(int argc, char** argv, const ApptainerSettings& settings) {
    CommandLine line("Bring a SIF file to a registry.", "apptainer push");
    PushWords push;
    declare(line, push);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    refuse_logins(push);
    std::string image = destination_of(push);
    std::vector<std::string> options = annotations_of(push, settings);
    if (push.plain_http) options.insert(options.end(), {"--plain-http", plan::parse_reference(image).registry});
    options.insert(options.end(), {push.file, image});
    plan::Site site = site_of_caller();
    Brought pushed = brought_by("sif-push", site, open_callers_store(site), options, settings);
    tell_info(settings, cat("Digest: ", pushed.digest->text()));
    tell_info(settings, "Upload complete");
    return 0;
}

}  // namespace berth::cli
