// The options of srun: `NAME=VALUE` a line, with the grammars of mounts, names, paths and sizes behind them.
#include <stdexcept>

#include "runtime/base/text.hh"
#include "runtime/request/mount_values.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/values.hh"
#include "tests/hostile/target.hh"

namespace {

void run(std::string_view input) {
    using namespace berth::plan;
    GivenOptions options;
    berth::hostile::refusing([&] {
        for (const std::string& line : berth::split(input, '\n')) {
            size_t equals = line.find('=');
            add_option(options, line.substr(0, equals), equals == line.npos ? "" : line.substr(equals + 1));
        }
    });
    berth::hostile::refusing([&] { request_of(options); });
    berth::hostile::refusing([&] {
        complete_mounts(options, {berth::cat(mounts_variable, "=", input)});
        request_of(options);
    });
    berth::hostile::refusing([&] {
        if (image_with_home(parse_reference(input), "/h").written.starts_with("~"))
            throw std::logic_error("a home that is not expanded");
    });
    Signs signs = signs_in({"HOME=/h", "SLURM_JOB_ID=1", "SLURM_JOB_NAME=" + std::string(input.substr(0, 64))});
    berth::hostile::refusing([&] {
        for (char letter : with_signs(input, signs))
            if (letter == '/' && input.find('/') == input.npos) throw std::logic_error("a sign brought a slash");
    });
    berth::hostile::refusing([&] {
        if (expanded_save_path(parse_save_path(input), signs).size() > 4095)
            throw std::logic_error("a path that is too long");
    });
    berth::hostile::refusing([&] {
        for (const MountRequest& mount : parse_mounts(input))
            if (mount.target != "" && normalised(mount.target) != mount.target)
                throw std::logic_error("a target that is not normalised");
    });
}

const berth::hostile::Registration registration("options", run);

}  // namespace
