#include "runtime/pull/export/image_file.hh"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::pull {

namespace {

/// zlib's quickest level takes a third of the time of its usual one, for files that are a tenth larger.
unsigned level_of(plan::LayerCodec codec) {
    return codec == plan::LayerCodec::gzip ? 1 : 0;
}

void finish_sif(int fd, const squash::SifForm& form, const std::string& what) {
    squash::write_sif(fd, form, what);
    let_execute(fd, what);
}

}  // namespace

void let_execute(int fd, const std::string& what) {
    mode_t mode = sys::stat_of(fd, what).st_mode & 0777;
    if (::fchmod(fd, mode | ((mode & 0444) >> 2)) != 0) throw SysError(cat("writing ", what));
}

std::vector<squash::AddedFile> enroot_files(const plan::ImageConfig& config) {
    std::string environment;
    for (const std::string& variable : config.env)
        // The format has no way to write a line end.
        if (variable.find('\n') == variable.npos) environment += variable + "\n";
    // The image has its script from Enroot: one that runs it in that place would run itself.
    if (config.entrypoint == enroot_script) return {{"etc/environment", environment}};
    std::string rc;
    if (!config.working_dir.empty()) {
        std::string directory = shell_word(config.working_dir);
        rc += cat("mkdir -p ", directory, " 2> /dev/null\ncd ", directory, " && unset OLDPWD || exit 1\n\n");
    }
    rc += cat("if [ -s /etc/rc.local ]; then\n    . /etc/rc.local\nfi\n\nif [ $# -gt 0 ]; then\n    exec",
              shell_words(config.entrypoint), " \"$@\"\nelse\n    exec", shell_words(config.entrypoint),
              shell_words(config.cmd), "\nfi\n");
    return {{"etc/environment", environment}, {"etc/rc", rc}};
}

bool has_file(const squash::Tree& tree, const std::string& path) {
    const squash::TreeData& in = tree.data();
    uint32_t at = 0;
    for (const std::string& name : split(path, '/'))
        if (at = S_ISDIR(in.nodes[at].mode) ? in.find(in.nodes[at], name) : squash::Node::none;
            at == squash::Node::none)
            return false;
    return true;
}

std::vector<squash::AddedFile> added_files(const SifOrigin& origin, const ImportOptions& options) {
    if (options.plain) return {};
    return options.sif ? sif_files(origin) : enroot_files(origin.process);
}

void write_image_file(const ImageParts& parts, const SifOrigin& origin, const std::optional<squash::FileConfig>& config,
                      std::vector<squash::AddedFile> added, const ImportOptions& options, int fd,
                      const std::string& what, const squash::Copied& copied) {
    squash::FlattenForm form{.added = std::move(added)};
    auto codec = options.compression;
    if (options.sif && !codec) codec = plan::LayerCodec::gzip;
    if (codec) form.compression = squash::Compression{squash::codec_of(*codec), level_of(*codec)};
    // A link at the root is for people: what the image has there is meant.
    std::erase_if(form.added,
                  [&](const squash::AddedFile& file) { return S_ISLNK(file.mode) && has_file(parts.tree, file.path); });
    squash::SifForm sif = sif_form(origin);
    if (options.sif) form.start = squash::sif_partition_start(sif);
    squash::flatten(parts.tree, parts.layers, parts.infos, form, fd, what, copied);
    if (options.sif)
        finish_sif(fd, sif, what);
    else if (config)
        squash::append_config(fd, *config, what);
}

}  // namespace berth::pull
