// CDI specifications in YAML.
#include "tests/hostile/cdi_target.hh"

namespace {

void run(std::string_view input) { berth::hostile::read_cdi(input, true); }

const berth::hostile::Registration registration("cdi_yaml", run);

}  // namespace
