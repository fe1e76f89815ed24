// Signatures in SIF files, and the keys by which they are verified.
#pragma once

namespace berth::pull {

/// `berth-pull sif-verify`, `sif-key-list`, `sif-key-import`, `sif-key-remove`: the words of `apptainer verify` and
/// `key`. The exit code; failures are told in Apptainer's form, with 255.
int sif_verify_command(int argc, char** argv);
int sif_key_list_command(int argc, char** argv);
int sif_key_import_command(int argc, char** argv);
int sif_key_remove_command(int argc, char** argv);

}  // namespace berth::pull
