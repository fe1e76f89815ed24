// CDI specifications in JSON, and what a site's hook prints, which is a part of one.
#include "tests/hostile/cdi_target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    hostile::read_cdi(input, false);
    hostile::refusing([&] { hostile::write_again(hooks::parse_container_edits(input, "hook")); });
}

const hostile::Registration registration("cdi_json", run);

}  // namespace
