#include "runtime/pull/transfer/import.hh"

#include <fcntl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/pull/transfer/output_file.hh"
#include "runtime/pull/transfer/stored.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/format/super.hh"

namespace berth::pull {

namespace {

constexpr uint64_t copied_at_once = 8 << 20;

/// `text` as one word of a shell.
std::string quoted(const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string quoted(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += " " + quoted(word);
    return out;
}

}  // namespace

std::vector<squash::AddedFile> enroot_files(const plan::ImageConfig& config) {
    std::string environment;
    for (const std::string& variable : config.env)
        // The format has no way to write a line end.
        if (variable.find('\n') == variable.npos) environment += variable + "\n";
    // The image has its script from Enroot: one that runs it in that place would run itself.
    if (config.entrypoint == enroot_script) return {{"etc/environment", environment}};
    std::string rc;
    if (!config.working_dir.empty()) {
        std::string directory = quoted(config.working_dir);
        rc += cat("mkdir -p ", directory, " 2> /dev/null\ncd ", directory, " && unset OLDPWD || exit 1\n\n");
    }
    rc += cat("if [ -s /etc/rc.local ]; then\n    . /etc/rc.local\nfi\n\nif [ $# -gt 0 ]; then\n    exec",
              quoted(config.entrypoint), " \"$@\"\nelse\n    exec", quoted(config.entrypoint), quoted(config.cmd),
              "\nfi\n");
    return {{"etc/environment", environment}, {"etc/rc", rc}};
}

void import_image(const store::Store& store, const Digest& digest, const std::string& reference,
                  const std::string& path, const ImportOptions& options, Meter& meter) {
    std::string what = printable(path, 4096);
    store::Lease lease = store.lease(store.image_of(digest).value_or(digest));
    oci::ImageDescription image = describe(store, digest, cat("image ", digest));
    OutputFile output(path);
    if (!options.force) output.refuse_existing();
    meter.begin(Phase::merging, cat("merging the ", image.diff_ids.size(), " layers of image ", digest));
    std::vector<squash::LayerInfo> infos;
    squash::Tree tree = merged_tree(store, image.diff_ids, cat("image ", digest), infos);
    std::vector<Fd> layers;
    for (const Digest& diff_id : image.diff_ids) layers.push_back(store.open_layer(diff_id));
    auto copied = [&, before = uint64_t{0}](uint64_t bytes, uint64_t total) mutable {
        if (bytes == 0) meter.begin(Phase::writing, cat("writing ", what), total);
        meter.advance(bytes - std::exchange(before, bytes));
    };
    squash::flatten(tree, layers, infos, options.plain ? std::vector<squash::AddedFile>() : enroot_files(image.config),
                    output.fd(), what, copied);
    squash::append_config(output.fd(), {image.config, digest.text(), reference}, what);
    meter.begin(Phase::saving, cat("saving ", what, " to disk"));
    output.publish(options.force);
}

namespace {

/// A SIF file with overlay partitions, of which one squashfs is made.
void flatten_file(const squash::ImageTree& read, int file, const OutputFile& output, const std::string& what,
                  Meter& meter) {
    Fd once_more(::fcntl(file, F_DUPFD_CLOEXEC, 3));
    if (!once_more) throw SysError(what);
    auto copied = [&, before = uint64_t{0}](uint64_t bytes, uint64_t total) mutable {
        if (bytes == 0) meter.begin(Phase::writing, what, total);
        meter.advance(bytes - std::exchange(before, bytes));
    };
    squash::flatten(read.tree, squash::for_each_layer(std::move(once_more), read.layers.size()), read.layers, {},
                    output.fd(), what, copied);
}

}  // namespace

std::string import_file(int file, const std::string& from, const std::string& path, const ImportOptions& options,
                        Meter& meter) {
    // Whoever imports a file wants to hear now that it is none of an image.
    squash::ImageTree read = tree_of_image_file(file, from);
    const squash::Extent& place = read.place;
    auto carried = place.size == 0 ? squash::read_config(file, from) : std::nullopt;
    OutputFile output(path);
    if (!options.force) output.refuse_existing();
    std::string what = cat("copying ", printable(from, 4096), " to ", printable(path, 4096));
    if (read.layers.size() > 1) {
        flatten_file(read, file, output, what, meter);
        return output.publish(options.force), "";
    }
    auto size = static_cast<uint64_t>(sys::stat_of(file, printable(from, 4096)).st_size);
    uint64_t end = place.size == 0 ? size : place.offset + place.size;
    meter.begin(Phase::writing, what, end - place.offset);
    for (auto at = static_cast<off_t>(place.offset); static_cast<uint64_t>(at) < end;) {
        size_t most = std::min<uint64_t>(end - static_cast<uint64_t>(at), copied_at_once);
        ssize_t sent = sys::uninterrupted([&] { return ::sendfile(output.fd(), file, &at, most); });
        if (sent < 0) throw SysError(what);
        if (sent == 0) throw Error(cat(what, ": the file has become shorter meanwhile"));
        meter.advance(static_cast<uint64_t>(sent));
    }
    squash::put_superblock_first(output.fd(), printable(path, 4096));
    meter.begin(Phase::saving, cat("saving ", printable(path, 4096), " to disk"));
    output.publish(options.force);
    // Anybody may have written it.
    auto digest = carried ? Digest::parse(carried->digest) : std::nullopt;
    return digest ? digest->text() : "";
}

}  // namespace berth::pull
