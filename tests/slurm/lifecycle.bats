#!/usr/bin/env bats
# bats file_tags=cgroup
# Whatever ends a step, nothing of it stays: no process, no mount, no temporary file.
load helper

setup() {
  cancel_everything
}

teardown() {
  root pkill -KILL -x nested-sleeper || true
  restore_site
  cancel_after_failure
}

# A step that runs until it is ended, with the settings that are given; returns when its tasks run.
start_long_step() {
  in_home 'rm -f started'
  in_home "$* srun -w n1 -n2 --container-image=$image --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 600'" \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
}

# The step ended with a failure within ten seconds.
expect_step_failed() {
  local rc=0
  within 10 step_ended
  wait "$step" || rc=$?
  (( rc != 0 )) || fail "the step succeeded"
}

step_ended() {
  ! kill -0 "$step" 2> /dev/null
}

a_pull_runs() {
  (( $(count_since GET /v2/debian/blobs/) )) || [[ -n $(berth_processes) ]]
}

# bats test_tags=guest
@test "a step that ended leaves nothing" {
  run -0 contained -n4 true
  expect_no_leftovers
}

@test "a step that failed leaves nothing" {
  run contained false
  expect_no_leftovers
  run ! contained --container-workdir=/not/there true
  expect_no_leftovers
}

@test "while a step runs there is one helper for all its tasks" {
  start_long_step
  expect_equal "$(berth_processes | wc -l)" 1
  root scancel -u alice
  expect_no_leftovers
}

@test "hostile row 64: kill -9 of slurmstepd leaves nothing, and the node goes on" {
  start_long_step
  kill_9 "$(stepd_pid)"
  leaves_may_stay=1 expect_no_leftovers
  cancel_everything
  wait_until 30 "$box" status
  expect_no_leftovers
  run -0 contained true
}

@test "kill -9 of the helper ends the step with a failure and leaves nothing" {
  start_long_step
  mapfile -t helpers < <(berth_processes)
  kill_9 "${helpers[@]}"
  expect_step_failed
  expect_no_leftovers
  cancel_everything
  wait_until 30 "$box" status
  run -0 contained true
}

# By its name, which nothing else in the box has.
nested_sleepers() { root pgrep -x nested-sleeper; }
no_nested_sleeper() { ! nested_sleepers; }

@test "kill -9 of the helper ends what lives in a user namespace that was made in the container" {
  with_site_lines '[security]' 'seccomp_allow = "unshare clone"'
  in_home 'rm -f started asleep'
  # The first task goes on in the new namespace itself, the second one leaves a process there and goes on.
  in_home "srun -w n1 -n2 --container-image=$image --container-mounts=/home/alice sh -c '
      cp /bin/sleep /tmp/nested-sleeper
      if [ \$SLURM_PROCID = 0 ]; then exec unshare -Ur sh -c \"
        setsid /tmp/nested-sleeper 600 & touch /home/alice/asleep; sleep 600\"; fi
      unshare -Ur setsid -f /tmp/nested-sleeper 600
      until test -e /home/alice/asleep; do sleep 0.1; done
      touch /home/alice/started; sleep 600'" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started || fail "$(< "$BATS_TEST_TMPDIR/out")"
  expect_equal "$(nested_sleepers | wc -l)" 2
  mapfile -t helpers < <(berth_processes)
  kill_9 "${helpers[@]}"
  expect_step_failed
  within 10 no_nested_sleeper
  expect_no_leftovers
}

one_job_runs() { [[ $(root squeue --noheader --states=RUNNING) ]]; }

@test "kill -9 of the helper leaves no socket in /run, while the job goes on" {
  run -0 alice salloc -Q --no-shell -w n1 -n2
  start_long_step SLURM_JOB_ID="$(root squeue --noheader --format=%A)"
  expect_equal "$(step_sockets | wc -l)" 1
  kill_9 "$(berth_processes)"
  expect_step_failed
  expect_no_leftovers
  one_job_runs
  cancel_everything
}

@test "kill -9 of the helper never leaves a task hanging that reads the image" {
  in_home 'rm -f started'
  in_home "srun -w n1 --container-image=$image --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 2; cat /usr/bin/* > /dev/null'" \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
  mapfile -t helpers < <(berth_processes)
  kill_9 "${helpers[@]}"
  expect_step_failed
}

# bats test_tags=guest
@test "hostile row 64: scancel leaves nothing" {
  start_long_step
  root scancel -u alice
  expect_step_failed
  expect_no_leftovers
}

@test "hostile row 64: a step that is cancelled while it pulls leaves nothing" {
  forget_images
  mark_log
  in_home "srun -w n1 --container-image=$image true" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 a_pull_runs
  root scancel -u alice
  expect_no_leftovers
  wait "$step" || true
  run -0 contained true
}

@test "the helper is no favourite of the out-of-memory killer's" {
  start_long_step
  [[ -n $(berth_processes) ]]
  for pid in $(berth_processes); do
    expect_equal "$(cat "$(box_proc)/$pid/oom_score_adj")" 0
    expect_equal "$(stat -c %u "$(box_proc)/$pid")" 2001
  done
  root scancel -u alice
  expect_no_leftovers
}

# As a service manager would restart them; what they start has nothing of the test's open.
restart_daemons() {
  # shellcheck disable=SC2016
  root bash -c \
    'pid=$(cat /run/slurmctld.pid); kill "$pid"; while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done; slurmctld' \
    < /dev/null > /dev/null 2>&1 3>&-
  root env BERTH_BOX_DIR="$state" BERTH_BOX_PORT="${BERTH_BOX_PORT:-16817}" "$state/lib/nodes.sh" restart 2 \
    < /dev/null > /dev/null 2>&1 3>&-
  wait_until 30 root scontrol ping
}

@test "hostile row 67: restarts of slurmd and slurmctld leave a step and its container alone" {
  start_long_step
  before=$(berth_processes)
  restart_daemons
  expect_equal "$(berth_processes)" "$before"
  kill -0 "$step"
  wait_until 30 alice srun -w n2 --container-image="$image" true
  root scancel -u alice
  expect_step_failed
  expect_no_leftovers
  wait_until 30 "$box" status
  run -0 contained true
}

@test "hostile row 67: a job that is requeued starts in a container of its own" {
  in_home 'rm -f runs out; cat > job.sh' <<'END'
#!/bin/bash
[[ ! -e /tmp/left ]] || echo stale
touch /tmp/left
echo run >> /home/alice/runs
(( $(wc -l < /home/alice/runs) == 2 )) || sleep 600
END
  job=$(in_home \
    "sbatch --parsable --requeue -w n1 -o out --container-image=$image --container-mounts=/home/alice job.sh")
  wait_until 20 alice test -s runs
  root scontrol requeue "$job"
  # slurmd knows by whole seconds which credentials it has revoked: one of the same second counts as revoked, and the
  # job as one that cannot start.
  is_pending() { [[ $(root squeue --noheader -j "$job" -o %T) == PENDING ]]; }
  wait_until 20 is_pending
  sleep 1.1
  # Slurm lets two minutes pass before it starts such a job again, and decides so when the first run has ended, whenever
  # that is.
  ended_after_another_start() {
    root scontrol update "jobid=$job" StartTime=now &> /dev/null || true
    # squeue shows nothing of the job for a moment between its runs.
    [[ $(alice grep -c run runs) == 2 ]] && no_jobs
  }
  wait_until 90 ended_after_another_start
  expect_equal "$(alice cat runs)" $'run\nrun'
  expect_equal "$(alice cat out)" ""
  expect_no_leftovers
}

@test "twenty steps one after another leave nothing" {
  run -0 in_home "for i in \$(seq 20); do srun -w n1 --container-image=$image true || exit 1; done"
  expect_no_leftovers
  expect_nodes_up
}
