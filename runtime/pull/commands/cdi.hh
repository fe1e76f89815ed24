// `berth-pull cdi`: CDI specifications and a site's programs speak JSON, which `berth` itself does not link.
#pragma once

namespace berth::pull {

/// Prints the changes of a container as lines (hooks/cdi_edits.hh): of devices in specifications (--folder F ...
/// NAME ...), or of the "containerEdits" on standard input (--edits WHAT). With --write KIND it reads such lines and
/// prints a specification. Throws Error.
int cdi_command(int argc, char** argv);

}  // namespace berth::pull
