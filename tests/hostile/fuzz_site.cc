// The site file (TOML), and the user's variables over it.
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "tests/hostile/target.hh"

namespace {

void run(std::string_view input) {
    using namespace berth::plan;
    berth::hostile::refusing([&] {
        Site site = parse_site(input, "berth.conf");
        path_for(site.store.path, {});
    });
    Site site;
    berth::hostile::refusing([&] { apply_environment(site, berth::split(input, '\n')); });
}

const berth::hostile::Registration registration("site", run);

}  // namespace
