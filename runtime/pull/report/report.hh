// `berth report`: what a site's events come to, for people.
#pragma once

namespace berth::pull {

int report_command(int argc, char** argv);

}  // namespace berth::pull
