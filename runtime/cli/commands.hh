// The commands of `berth`, a file each. argv[0] is the command's word; the result is the exit code; failures are
// Errors.
#pragma once

namespace berth::cli {

using Command = int(int argc, char** argv);

Command step;  ///< the helper of a Slurm step, started by the plugin only
Command end_step;  ///< removes what a step whose helper was killed has left, started by the plugin only
Command end_job;  ///< removes the containers of a job that has ended, started by the plugin only
Command agree;    ///< for srun: where the nodes of a step agree on a digest and share the image
Command resolve;  ///< for srun and sbatch: what a tag means now
Command define;   ///< for srun, sbatch and salloc: what an environment stands for
Command run;
Command exec;
Command enter;  ///< of exec --job, on the node
Command ssh_config;
Command ps;
Command rm;
Command save;
Command plan;
Command pull;
Command mirror;
Command import;
Command images;
Command inspect;
Command rmi;
Command gc;
Command verify;
Command sign;
Command publish;
Command profile;
Command login;
Command logout;
Command devices;
Command doctor;
Command setup;
Command migrate;
Command stats;
Command report;
Command config;
Command environment;
Command nvml;          ///< started by berth itself
Command srun_options;  ///< for scripts/check-consistency

}  // namespace berth::cli
