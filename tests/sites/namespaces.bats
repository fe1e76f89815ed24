#!/usr/bin/env bats
# bats file_tags=newer
# namespace/linux: all of a step but the extern one is in the job's mounts, and the job's epilog is not. Slurm has it
# since 25.11: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with namespaces; }

setup() { cancel_everything; }

@test "namespaces: Slurm makes mounts for each job" {
  expect_equal "$(slurm_says NamespaceType)" namespace/linux
  run -0 in_home "salloc -Q -w n1 bash -c 'srun touch /tmp/of-the-job; srun ls /tmp/of-the-job'"
  expect_equal "$output" /tmp/of-the-job
  run ! root ls /tmp/of-the-job
}

@test "namespaces: containers start, and those of scope job go with the job" {
  expect_scope_job_goes_with_the_job
}

@test "namespaces: a container has the job's /tmp where it asks for the node's" {
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun sh -c \"echo of the job > /tmp/seen\"
    srun --container-image=$image --container-mounts=/tmp:/job cat /job/seen'"
  expect_equal "$output" 'of the job'
  expect_no_leftovers
}

@test "namespaces: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}

@test "namespaces: doctor names the setting" {
  run -0 alice srun -w n1 berth doctor
  expect_output_like "NamespaceType=namespace/linux: --container-mounts takes the job's own /tmp"
}
