// The commands of `enroot`, the front end for scripts that were written for Enroot. argv[0] is the command's word; the
// result is the exit code; failures are Errors.
#pragma once

namespace berth::cli {

using EnrootCommand = int(int argc, char** argv);

EnrootCommand enroot_import;
EnrootCommand enroot_digest;
EnrootCommand enroot_load;
EnrootCommand enroot_create;
EnrootCommand enroot_remove;
EnrootCommand enroot_export;
EnrootCommand enroot_list;
EnrootCommand enroot_start;
EnrootCommand enroot_batch;
EnrootCommand enroot_exec;

}  // namespace berth::cli
