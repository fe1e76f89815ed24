// The options of srun: `NAME=VALUE` a line, with the grammars of mounts, names, paths and sizes behind them.
#include <stdexcept>

#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/options.hh"
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
        for (const MountRequest& mount : parse_mounts(input))
            if (mount.target != "" && normalised(mount.target) != mount.target)
                throw std::logic_error("a target that is not normalised");
    });
}

const berth::hostile::Registration registration("options", run);

}  // namespace
