#!/usr/bin/env bats
# bats file_tags=newer
# EntireStepInNS with job_container/tmpfs: all of a step but the extern one sees the job's mounts alone, and the job's
# epilog does not see them. Slurm has it since 24.05: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with tmpfs --with entire-step; }

@test "entire step: containers start, and those of scope job go with the job" {
  for _ in 1 2; do
    run -0 in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job salloc -Q -w n1 bash -c '
      srun --container-name=mine --container-image=$image sh -c \"echo kept > /opt/kept\"
      srun --container-name=mine cat /opt/kept
      ls -d $state/nodes/n1/store/*.containers/job* > /dev/null && echo there'"
    expect_output_like kept
    wait_until 20 no_containers_of_jobs || fail "$(containers_of_jobs)"
  done
  expect_no_leftovers
  expect_nodes_up
}

@test "entire step: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}
