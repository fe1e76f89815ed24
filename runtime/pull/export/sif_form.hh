// What a SIF file has besides the image's tree, so that Apptainer and Singularity run it as they run one of their own.
// Pure.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/image_config.hh"
#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/format/sif_write.hh"

namespace berth::pull {

/// Where the content of a SIF file is from.
struct SifOrigin {
    plan::ImageConfig process;
    std::vector<std::pair<std::string, std::string>> labels = {};
    std::string settings = {};   ///< the member `config` of an image's config, as JSON; empty: there is none
    std::string bootstrap = {};  ///< as definition files name it: "docker", "localimage"
    std::string from = {};       ///< the image, as that kind of source is written
    std::string identity = {};   ///< hexadecimal digits by which the file is told from others, 32 or more
    int64_t time = 0;            ///< of the image, seconds since 1970
};

/// Reads what an image's config says of labels, settings and time. Leaves out what is not as it should be: whether the
/// config is one is judged elsewhere.
void read_config_text(SifOrigin& origin, std::string_view config);

/// Each word behind a blank, as a shell reads it back.
std::string shell_words(const std::vector<std::string>& words);

/// The file without its partition.
squash::SifForm sif_form(const SifOrigin& origin);

/// Files of /.singularity.d, and the links at the root that lead to them: variables, what `run` starts, labels and the
/// definition. Source: apptainer, internal/pkg/build/sources and cmd/internal/cli/inspect.go.
std::vector<squash::AddedFile> sif_files(const SifOrigin& origin);

}  // namespace berth::pull
