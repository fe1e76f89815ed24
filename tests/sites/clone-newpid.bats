#!/usr/bin/env bats
# bats file_tags=newer
# namespace/linux with CLONE_NEWPID: what a job has started, a named container's server as well, ends with the job.
# Slurm has it since 25.11: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with namespaces --with clone-newpid; }

setup() { cancel_everything; }

@test "clone newpid: Slurm gives each job a PID namespace" {
  run -0 in_home "salloc -Q -w n1 bash -c 'srun readlink /proc/self/ns/pid; srun readlink /proc/self/ns/pid'"
  expect_equal "$(sort -u <<< "$output" | wc -l)" 1
  [[ $output != *"$(root readlink /proc/self/ns/pid)"* ]] || fail "$output"
}

@test "clone newpid: containers start, have exit codes and signals, and those of scope job go with the job" {
  run -0 contained only-in-image
  expect_equal "$output" "only in the image"
  run -7 contained sh -c 'exit 7'
  run contained sh -c 'kill -KILL $$'
  expect_status 137
  expect_scope_job_goes_with_the_job
}

@test "clone newpid: a named container ends with its first job, and a step of another job says so and fails" {
  in_home 'rm -f started second'
  contained --container-name=shared --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 600' > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  local first=$! job second
  wait_until 20 alice test -e started
  job=$(alice squeue --noheader -o %A)
  alice srun -w n1 --container-name=shared sh -c 'touch /home/alice/second
    while cat /etc/os-release; do sleep 0.1; done > /dev/null 2>&1; exit 0' > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 alice test -e second
  root scancel "$job"
  wait_until 20 step_over "$first"
  wait_until 20 step_over "$second"
  status=0
  wait "$second" || status=$?
  output=$(without_progress < "$BATS_TEST_TMPDIR/second")
  expect_failure
  expect_one_error_line
  expect_output_like 'the container has ended with the job that started it: .* CLONE_NEWPID'
  expect_no_leftovers
  expect_nodes_up
}

@test "clone newpid: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}

@test "clone newpid: doctor says what it means" {
  run -0 alice srun -w n1 berth doctor
  expect_output_like 'namespace.yaml has CLONE_NEWPID: a named container ends with the job that started it'
}
