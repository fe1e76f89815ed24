#!/usr/bin/env bats
# bats file_tags=newer
# PrologFlags=RunInJob: Slurm calls no epilog of plugins, and the extern step may end before the job's other steps.
# Slurm has it since 24.05: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with run-in-job; }

setup() { cancel_everything; }

@test "run in job: Slurm knows the flag" {
  [[ $(slurm_says PrologFlags) == *RunInJob* ]] || fail "$(slurm_says PrologFlags)"
}

@test "run in job: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}

@test "run in job: a job that is cancelled leaves nothing, nor its containers" {
  run -0 contained true
  wait_until 20 eval '[[ $(on_node ls /run/berth.steps) == "" ]]'
  before=$(seen_on_node)
  in_home 'rm -f started'
  in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job srun -w n1 --container-name=mine --container-image=$image \
    --container-mounts=/home/alice sh -c 'touch started; touch /home/alice/started; sleep 600'" \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
  cancel_everything
  wait_until 20 step_over "$step"
  wait_until 20 same_as_before || fail "before: $before" "now: $(seen_on_node)"
  run ! root bash -c "ls -d $state/nodes/n1/store/*.containers/job*"
  expect_no_leftovers
  expect_nodes_up
}

@test "run in job: a named container goes on in another job when its first one ends" {
  in_home 'rm -f started second go'
  contained --container-name=shared --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 600' > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  first=$!
  wait_until 20 alice test -e started
  job=$(alice squeue --noheader -o %A)
  alice srun -w n1 --container-name=shared sh -c 'touch /home/alice/second
    until test -e /home/alice/go; do cat /etc/os-release > /dev/null || exit 3; sleep 0.1; done; only-in-image' \
    > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 alice test -e second
  root scancel "$job"
  wait_until 20 step_over "$first"
  wait_until 20 eval '[[ $(on_node ls /run/berth.steps) != *".$job."* ]]'
  alice touch go
  wait "$second" || fail "$(< "$BATS_TEST_TMPDIR/second")"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" "only in the image"
  expect_no_leftovers
  expect_nodes_up
}

# Of the extern step Slurm itself has nobody else who would end the job.
@test "run in job: kill -9 of a step's slurmstepd: the job ends with its extern step, and leaves nothing" {
  run -0 contained true
  wait_until 20 eval '[[ $(on_node ls /run/berth.steps) == "" ]]'
  in_home 'rm -f started'
  contained --container-mounts=/home/alice sh -c 'touch /home/alice/started; sleep 600' \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 alice test -e started
  expect_equal "$(on_node ls /run/berth.steps | wc -l)" 1
  kill_9 "$(root pgrep -f 'slurmstepd: \[[0-9]+\.0\]')"
  cancel_everything
  wait_until 30 eval '[[ $(on_node ls /run/berth.steps /run/berth/jobs) != *2001* ]]'
  wait_until 30 "$box" status
  expect_nodes_up
}

@test "run in job: doctor says what it means" {
  run -0 alice srun -w n1 berth doctor
  expect_output_like "PrologFlags=runinjob: a job's containers are ended by its extern step"
}
