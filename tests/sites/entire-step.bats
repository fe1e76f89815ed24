#!/usr/bin/env bats
# bats file_tags=newer
# EntireStepInNS with job_container/tmpfs: all of a step but the extern one sees the job's mounts alone, and the job's
# epilog does not see them. Slurm has it since 24.05: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with tmpfs --with entire-step; }

@test "entire step: containers start, and those of scope job go with the job" {
  expect_scope_job_goes_with_the_job
}

@test "entire step: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}
