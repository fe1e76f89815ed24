#!/usr/bin/env bats
# slurmdbd with MariaDB: what accounting keeps of a job with a container.
load site

setup_file() { site_up --with accounting; }

# The variables come later than the job's end.
in_accounting() {
  [[ $(root sacct -n -X -j "$1" -o State) == *COMPLETED* && $(root sacct -j "$1" --env-vars) != *NONE* ]]
}

@test "accounting: sacct --env-vars tells the image of a batch job by its digest, and the script its options" {
  in_home "printf '#!/bin/sh\n#SBATCH --container-image=$image\nonly-in-image\n' > job.sh"
  job=$(in_home 'sbatch --parsable -w n1 -o out job.sh' | tail -n 1)
  wait_until 30 no_jobs
  wait_until 30 in_accounting "$job"
  run -0 alice sacct -j "$job" --env-vars
  expect_output_like "$image@?[= ]?.*$(manifest_digest 12)"
  run -0 alice sacct -j "$job" --batch-script
  expect_output_like "#SBATCH --container-image=$image"
}

@test "accounting: steps in containers are accounted for, with their exit codes" {
  run alice salloc -w n1 sh -c "srun --container-image=$image true; srun --container-image=$image sh -c 'exit 4'"
  job=$(sed -nE 's/.*Granted job allocation ([0-9]+).*/\1/p' <<< "$output")
  steps_are_there() { [[ $(root sacct -n -j "$job.1" -o State) == *FAILED* ]]; }
  wait_until 30 steps_are_there
  run -0 alice sacct -n -P -j "$job.0,$job.1" -o JobID,State,ExitCode
  expect_equal "$output" "$job.0|COMPLETED|0:0"$'\n'"$job.1|FAILED|4:0"
}
