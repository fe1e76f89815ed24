#include "runtime/pull/transfer/import.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/pull/transfer/output_file.hh"
#include "runtime/pull/transfer/stored.hh"

namespace berth::pull {

namespace {

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

}  // namespace berth::pull
