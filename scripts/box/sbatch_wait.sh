#!/bin/bash
# Submits a job and ends with it, with its exit code: sbatch_wait.sh ARGUMENTS OF sbatch... `sbatch --wait` does the
# same, but looks at the job after 2, 6, 14 and more seconds.
set -euo pipefail

job=$(sbatch --parsable "$@")
job=${job%%;*}
while [[ -n $(squeue --noheader --jobs "$job" 2> /dev/null) ]]; do sleep 0.1; done
# Of an array the highest; a job that a signal ended has failed.
exit "$(scontrol show job "$job" | sed -nE 's/^.* ExitCode=([0-9]+):([0-9]+).*$/\1 \2/p' |
  awk '{ code = $2 ? 128 + $2 : $1; if (code > worst) worst = code } END { print worst + 0 }')"
