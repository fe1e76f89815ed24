#include "runtime/base/debug_log.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <ctime>
#include <tuple>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/images/admitted.hh"
#include "runtime/images/extracted.hh"
#include "runtime/images/file.hh"
#include "runtime/images/kept_index.hh"
#include "runtime/images/once.hh"
#include "runtime/images/prefetch_record.hh"
#include "runtime/images/spelling.hh"
#include "runtime/images/wait_teller.hh"
#include "runtime/store/file_record.hh"
#include "runtime/store/partial.hh"
#include "runtime/telemetry/event_cause.hh"

namespace berth {

namespace {

/// The words of berth-pull's report, put together from its output as it comes.
class Report {
  public:
    /// `answers` is where questions are answered.
    Report(const PullWatch& watch, int answers) : watch_(watch), answers_(answers) {}

    /// False when nothing more is to come.
    bool take(const std::string& text) {
        size_t space = text.find(' ');
        std::string word = text.substr(0, space), rest = space == std::string::npos ? "" : text.substr(space + 1);
        if (word == "image") result_.digest = Digest::parse(rest);
        if (word == "progress" && watch_.progress) watch_.progress(rest);
        if (word == "log") debug::pass(rest);
        if (word == "cause") cause_ = plan::cause_of(rest);
        if (word == "fetched") take_fetched(rest);
        if (word == "peers") parse_number(rest, UINT64_MAX, result_.peer_bytes);
        if (word == "published") parse_number(rest, UINT64_MAX, result_.published_bytes);
        if (word == "early") result_.early = Digest::parse(rest);
        if (word == "signer") result_.signer = printable(rest, 1024);
        if (word == "rule") result_.rule = printable(rest, 1024);
        if (word == "refused-login" && result_.refused_logins.size() < 16) result_.refused_logins.push_back(rest);
        if (word == "variable") answer(rest);
        if (word == "refused") result_.refused = printable(rest, 1024);
        if (word == "error") {
            uint64_t code = 0;
            size_t after = rest.find(' ');
            error_code_ =
                parse_number(rest.substr(0, after), 255, code) && code != 0 ? static_cast<int>(code) : exit_failure;
            error_ = after == std::string::npos ? "the pull failed" : printable(rest.substr(after + 1), 8192);
        }
        if (word == "continues") goes_on_ = true;
        return !goes_on_;
    }

    /// The image is here, and the pull goes on: it serves it to other nodes, or proves what it is.
    bool goes_on() const { return goes_on_; }

    /// Throws the error that was reported.
    const PullResult& result(int exit_code, const std::string& reference) const {
        if (!error_.empty()) throw PullError(watch_.failure + error_, error_code_, cause_);
        if (exit_code != 0 || !result_.digest)
            throw Error(cat("pulling ", reference, ": berth-pull ", silent_end(exit_code),
                            "; run berth pull by hand to see more"));
        if (has_fetched_ && watch_.fetched) watch_.fetched(result_);
        return result_;
    }

  private:
    /// BYTES PHASE=MICROSECONDS ...
    void take_fetched(const std::string& text) {
        has_fetched_ = parse_number(text.substr(0, text.find(' ')), UINT64_MAX, result_.bytes);
        result_.phases = plan::parse_phases(text);
    }

    void answer(const std::string& name) const {
        auto value = watch_.variable ? watch_.variable(name) : std::nullopt;
        bool is_line = value && value->find('\n') == value->npos;
        std::string line = is_line ? cat("=", *value, "\n") : "\n";
        // It may have gone.
        if (answers_ >= 0) std::ignore = ::send(answers_, line.data(), line.size(), MSG_NOSIGNAL);
    }

    const PullWatch& watch_;
    int answers_;
    PullResult result_;
    bool has_fetched_ = false;
    plan::Cause cause_ = plan::Cause::image;
    bool goes_on_ = false;
    std::string error_;
    int error_code_ = exit_failure;
};

PullResult reported(Child& child, const plan::Reference& reference, const PullWatch& watch, int answers) {
    Report report(watch, answers);
    read_lines(child, watch, [&](const std::string& line) { return report.take(line); });
    if (!report.goes_on()) return report.result(child.wait(), reference.text());
    PullResult result = report.result(0, reference.text());
    result.lifeline = child.output();
    watch.keep(std::move(child));
    return result;
}

PullResult pulled(const plan::Reference& reference, const std::vector<std::string>& arguments,
                   const store::Store& store, const PullWatch& watch, const std::string& place = {}) {
    // Secrets go this way, where no list of processes shows them.
    std::pair<Fd, Fd> ends;
    if (!place.empty() || watch.variable) ends = sys::make_stream_pair();
    auto&& [answers, input] = ends;
    std::string line = place + '\n';
    if (!place.empty() && ::send(answers.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0)
        throw SysError("telling berth-pull where nodes agree");
    std::string program = pull_program();
    debug::log("image", "starting ", program, " for ", reference.text());
    Child child(program, arguments, input.get());
    input.reset();
    try {
        return reported(child, reference, watch, answers.get());
    } catch (...) {
        // A pull that draws takes its bars away.
        child.send(watch.bars ? SIGTERM : SIGKILL);
        child.wait();
        store.sweep();  // what it was at
        throw;
    }
}

/// The digest when the store can answer without the source.
std::optional<Digest> known_digest(const plan::Reference& reference, const store::Store& store,
                                   const plan::Site& site) {
    using Kind = plan::Reference::Kind;
    if (reference.kind == Kind::dockerd || reference.kind == Kind::podman) return {};
    if (reference.has_path()) {
        // berth-pull tells what a folder without index.json is.
        bool is_layout = reference.kind != Kind::oci || ::access((reference.path + "/index.json").c_str(), F_OK) == 0;
        auto digest = site.store.pull == plan::PullPolicy::always || !is_layout
                          ? std::nullopt
                          : store.digest_of(store::file_record(reference).reference);
        return digest && store.has_image(*digest) ? digest : std::nullopt;
    }
    bool may_ask = !reference.digest && site.store.pull != plan::PullPolicy::missing &&
                   site.store.pull != plan::PullPolicy::never;
    if (may_ask || site.store.pull == plan::PullPolicy::always) return {};
    auto digest = store.digest_of(reference);
    return digest && store.has_image(*digest) ? digest : std::nullopt;
}

ContainerImage stored_image(const store::Store& store, const Digest& digest) {
    store::Store::OpenedFiles files = store.open_image(digest);
    return {std::move(files.index), std::move(files.layers), std::move(files.lease), {}};
}

/// One whose layers are to come. Nothing when it has come meanwhile, all of it.
std::optional<ContainerImage> early_image(const store::Store& store, const PullResult& pull, const plan::Site& site,
                                          const PullWatch& watch) {
    auto files = store::open_partial(store, *pull.early);
    if (!files) return std::nullopt;
    ContainerImage out{std::move(files->index), std::move(files->layers), std::move(files->lease), {}};
    out.coming = std::move(files->coming);
    out.coming.interrupted = attended_wait(watch, out.coming.map, site.limits.stall_time);
    out.coming.map->set_lifeline(pull.lifeline);
    // Who brings them gives up first, and says why.
    out.coming.map->set_patience(std::chrono::seconds(site.limits.stall_time) + std::chrono::seconds(30));
    return out;
}

/// True when an image can be started as it lies in the store; a damaged or older one goes back to berth-pull, which
/// mends it.
std::optional<ContainerImage> try_stored_image(const store::Store& store, const Digest& digest) try {
    return stored_image(store, digest);
} catch (const Error&) {
    return std::nullopt;
}

/// Only this file server can wait, and only what is published of an image and signed can be read in parts.
bool starts_early(const plan::Site& site, const PullWatch& watch) {
    return watch.early && watch.keep && site.store.start == plan::StartPolicy::early && !site.share.artifacts.empty() &&
           !site.policy.signatures.empty() && site.mount.engine == plan::MountEngine::berth;
}

std::vector<std::string> arguments_for(const plan::Reference& reference, const plan::Site& site,
                                       const store::Store& store, const PullWatch& watch) {
    std::vector<std::string> out = pull_arguments(site, store.location());
    // The canonical text has no user, who is no part of which image it is.
    if (!reference.user.empty()) out.insert(out.end(), {"--user", reference.user});
    if (watch.bars) out.emplace_back("--bars");
    if (!watch.progress) out.emplace_back("--quiet");
    if (watch.keep && !site.share.artifacts.empty()) out.emplace_back("--prove-later");
    if (starts_early(site, watch)) out.emplace_back("--early");
    if (watch.variable) out.emplace_back("--ask-variables");
    for (const std::string& word : watch.refused_logins) out.insert(out.end(), {"--refused-login", word});
    if (!watch.job.empty()) out.insert(out.end(), {"--job", watch.job});
    out.insert(out.end(), {"--report", reference.text()});
    return out;
}

/// For a pull that goes on with one of an image of this digest when that has ended.
EarlyPull early_pull(const PullResult& pull, plan::Reference reference, const plan::Site& site,
                     const store::Store& store, const PullWatch& watch) {
    reference.digest = pull.digest;
    PullWatch again;
    again.keep = watch.keep;
    again.early = true;
    again.job = watch.job;
    again.refused_logins = pull.refused_logins.empty() ? watch.refused_logins : pull.refused_logins;
    return {pull.lifeline, arguments_for(reference, site, store, again)};
}

/// The user hears of a store that the site offers and that is passed over: the start takes longer, or fails.
store::Store open_telling(const plan::Site& site, const plan::Caller& caller, const PullWatch& watch) {
    store::Store store = open_store(site, caller);
    if (watch.progress)
        for (const std::string& line : store.refused()) watch.progress(line);
    return store;
}

/// A pull in which the nodes of the step have a part: `word` says which, `agreement` where they meet.
PullResult pulled_together(const char* word, const std::string& agreement, const plan::Reference& reference,
                       const plan::Site& site, const store::Store& store, const PullWatch& watch) {
    std::vector<std::string> arguments = arguments_for(reference, site, store, watch);
    arguments.insert(arguments.begin(), word);
    return pulled(reference, arguments, store, watch, agreement);
}

OpenedImage with_signers(OpenedImage opened, const store::Store& store, const plan::Reference& reference,
                         const plan::Site& site) {
    if (site.policy.signatures.empty()) return opened;
    store::SignatureRecord::Admitted admitted = admission_of(store, *opened.digest, reference);
    opened.signer = signers_text(admitted);
    opened.rule = admitted.rule;
    return opened;
}

/// `agreement`: where the step's nodes share it; empty: they do not.
OpenedImage open_stored_image(const plan::Reference& reference, const plan::Caller& caller, const plan::Site& site,
                              const PullWatch& watch, const std::string& agreement = {}) {
    store::Store store = open_telling(site, caller, watch);
    auto known = known_digest(reference, store, site);
    debug::log("image", "store ", store.location(), ", pull policy ", plan::word_of(site.store.pull), ": ",
               known ? known->text() : "the source has to be asked");
    if (known && is_admitted(store, *known, reference, site))
        if (auto image = try_stored_image(store, *known))
            return with_signers({std::move(*image), known}, store, reference, site);
    bool share = site.share.enabled && !agreement.empty() && watch.keep;
    PullResult got = share ? pulled_together("--share", agreement, reference, site, store, watch)
                           : pulled(reference, arguments_for(reference, site, store, watch), store, watch);
    Digest digest = *got.digest;
    debug::log("image", "berth-pull has brought ", digest, ": bytes ", got.bytes, ", of other nodes ", got.peer_bytes,
               ", published ", got.published_bytes, got.early ? "; its layers are still to come" : "");
    if (got.early)
        if (auto image = early_image(store, got, site, watch))
            return {std::move(*image), digest, got.signer, got.rule, early_pull(got, reference, site, store, watch)};
    return with_signers({stored_image(store, digest), digest}, store, reference, site);
}

/// What the tag means for all nodes of the step. Adds what the registry has refused to `watch`.
Digest agreed_digest(const plan::Reference& tag, const std::string& agreement, const plan::Caller& caller,
                          const plan::Site& site, PullWatch& watch) {
    PullResult got = pulled_together("--agree", agreement, tag, site, open_store(site, caller), watch);
    if (!got.refused_logins.empty()) watch.refused_logins = got.refused_logins;
    return *got.digest;
}

/// So that a later start finds it when the registry is down.
void remember_tag(const plan::Reference& tag, const Digest& digest, const plan::Caller& caller,
                  const plan::Site& site) {
    store::Store store = open_store(site, caller);
    auto known = store.find_tag(tag);
    if (!known || known->digest != digest) store.put_tag(tag, {digest, static_cast<int64_t>(::time(nullptr)), ""});
}

/// The image in the form that the site wants it served from.
OpenedImage for_engine(OpenedImage opened, const std::string& text, const plan::Caller& caller, const plan::Site& site,
                       const PullWatch& watch) {
    if (site.mount.engine == plan::MountEngine::squashfuse && watch.progress)
        watch.progress("mount.engine = \"squashfuse\" is no more, and the image is unpacked instead; write \"unpack\", "
                       "or leave it out for berth's file server");
    if (site.mount.engine != plan::MountEngine::berth && opened.image.directory.empty())
        use_extracted(opened, open_store(site, caller), site.mount.modes,
                      cat("image ", printable(text, 1024)), watch);
    return opened;
}

/// With the list of what its starts read. Nobody gets a store for it.
OpenedImage with_prefetch(OpenedImage opened, const plan::Caller& caller, const plan::Site& site) {
    bool is_possible = site.mount.prefetch && site.mount.engine == plan::MountEngine::berth;
    if (is_possible && has_store(site, caller)) 
        prefetch_known_reads(opened, open_store(site, caller), hot_limits(site), site.mount.modes);
    return opened;
}

/// What was opened is where it lies now, whatever its path meant before.
OpenedImage open_judged_file(const std::string& path, const plan::Reference& reference, const plan::Caller& caller,
                             const plan::Site& site, const PullWatch& watch) {
    AdmittedFile admitted;
    auto judge = [&](int file) {
        check_opened_image(site, reference, file);
        admitted = admit_file(site, caller, sys::opened_path(file), file, watch);
        return admitted.sums;
    };
    std::optional<store::Store> store = store_of_indexes(site, caller);
    ContainerImage image = open_image_file(path, judge, store ? &*store : nullptr);
    return {std::move(image), {}, admitted.signer, admitted.rule};
}

OpenedImage open_as_is(const plan::Reference& image, const plan::Caller& caller, const plan::Site& site,
                       const PullWatch& watch, const JobTag& tag) {
    plan::Reference reference = plan::with_absolute_path(image, caller.cwd, caller.home);
    check_image_here(site, reference);
    debug::log("image", image.written, " is ", reference.text());
    if (reference.kind == plan::Reference::Kind::path)
        return open_judged_file(reference.path, reference, caller, site, watch);
    if (reference.kind != plan::Reference::Kind::registry) return open_stored_image(reference, caller, site, watch);
    check_is_no_file(image.written, caller.cwd);
    if (plan::looks_like_image_file(image.written)) throw Error(plan::missing_file_mistake(image.written));
    if ((!tag.digest && tag.agreement.empty()) || reference.digest)
        return open_stored_image(reference, caller, site, watch, tag.agreement);
    plan::Reference exact = reference;
    PullWatch knowing = watch;
    Digest digest = tag.digest ? *tag.digest : agreed_digest(reference, tag.agreement, caller, site, knowing);
    exact.digest = digest;
    debug::log("image", "the tag means ", digest, tag.digest ? " since srun has asked" : " as the step's nodes agree");
    OpenedImage out = open_stored_image(exact, caller, site, knowing, tag.agreement);
    remember_tag(reference, digest, caller, site);
    return out;
}

OpenedImage open_as_it_was(const plan::ContainerRecord& record, const plan::Caller& caller, const plan::Site& site,
                           const PullWatch& watch) {
    plan::Reference reference = plan::parse_reference(record.image), made_of = reference;
    // The container is made of these bytes, whatever its image was called.
    if (!made_of.digest) made_of.digest = Digest::parse(record.digest);
    check_image_here(site, made_of);
    std::string path = printable(record.image_file, 4096);
    if (!record.image_file.empty()) {
        OpenedImage out = open_judged_file(record.image_file, made_of, caller, site, watch);
        if (file_identity(record.image_file) != record.identity)
            throw Error(cat("opening the image ", path,
                            " of the container: the file has changed since the container was made of it; put the old "
                            "one back, or remove the container"));
        return out;
    }
    store::Store store = open_store(site, caller);
    Digest digest(record.digest);
    bool admitted = is_admitted(store, digest, made_of, site);
    if (auto image = admitted ? try_stored_image(store, digest) : std::nullopt) return {std::move(*image), digest};
    if (reference.kind != plan::Reference::Kind::registry)
        throw Error(cat("opening the image ", record.digest, " of the container: it is no longer in the store ",
                        printable(store.path(), 4096), "; bring it back with berth pull ",
                        printable(record.image, 4096)));
    // Just these bytes, whatever the tag means by now.
    // A signature policy looks at the tag as well.
    if (site.policy.signatures.empty()) reference.tag.clear();
    reference.digest = digest;
    return open_stored_image(reference, caller, site, watch);
}

}  // namespace

OpenedImage open_image(const plan::Reference& image, const plan::Caller& caller, const plan::Site& site,
                       const PullWatch& watch, const JobTag& tag) {
    OpenedImage opened = open_as_is(image, caller, site, watch, tag);
    return with_prefetch(for_engine(std::move(opened), image.written, caller, site, watch), caller, site);
}

plan::ContainerRecord record_of(const plan::Reference& image, const OpenedImage& opened, const plan::Caller& caller) {
    plan::Reference made_of = plan::with_absolute_path(image, caller.cwd, caller.home);
    plan::ContainerRecord out;
    out.image = made_of.text();
    out.digest = text_of(opened.digest);
    if (!opened.digest) out.image_file = made_of.path;
    return out;
}

OpenedImage open_image_again(const plan::ContainerRecord& record, const plan::Caller& caller, const plan::Site& site,
                             const PullWatch& watch) {
    return with_prefetch(for_engine(open_as_it_was(record, caller, site, watch), record.image, caller, site, watch),
                         caller, site);
}

std::function<bool()> attended_wait(const PullWatch& watch, std::shared_ptr<ChunkMap> map, unsigned stall_time) {
    auto lines = std::make_shared<WaitLines>(std::chrono::seconds(stall_time), std::chrono::seconds(1));
    return [watch, map = std::move(map), lines, oldest = std::make_shared<OldestWait>()] {
        pollfd entry{watch.descriptor, POLLIN, 0};
        if (watch.ready && ::poll(&entry, 1, 0) > 0) watch.ready();
        auto line = lines->due(oldest->of(*map), map->here(), map->count());
        if (line && watch.progress) watch.progress(*line);
        return watch.over && watch.over();
    };
}

std::string file_identity(const std::string& path) {
    struct stat st = sys::stat_of(sys::open_file(path, O_PATH).get(), printable(path, 4096));
    if (S_ISDIR(st.st_mode)) return "directory";
    return cat(st.st_size, ' ', int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec, ' ', st.st_ino);
}

}  // namespace berth
