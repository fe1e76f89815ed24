// The commands of `berth-pull`, a file each. argv[0] is the command's word; the result is the exit code; failures that
// are not told yet are Errors.
#pragma once

namespace berth::pull {

using Command = int(int argc, char** argv);

Command admit_command;   ///< whether an image file or directory may run by the site's signature policy
Command agree_command;   ///< answers the nodes of a step until it is killed: the standard input is srun's socket, which
                         ///< listens; the secret is in the environment (request/frozen.hh)
Command cdi_command;     ///< prints the changes of a container as lines (hooks/cdi_edits.hh): of devices, of the
                         ///< "containerEdits" on standard input (--edits); --write KIND: the other way round
Command import_command;  ///< `berth import`
Command publish_command;  ///< `berth publish`
Command report_command;   ///< `berth report`
Command save_command;     ///< what `berth save` and `berth run --save` start
Command sif_command;      ///< what `apptainer pull` and `exec` start for oras://
Command sif_push_command;
Command sign_command;    ///< `berth sign`
Command verify_command;  ///< `berth verify`. 0: all is well, or was mended; 1: something is damaged or missing

/// The words of `apptainer verify` and `key`; failures are told in Apptainer's form, with 255.
Command sif_verify_command, sif_key_list_command, sif_key_import_command, sif_key_remove_command;

}  // namespace berth::pull
