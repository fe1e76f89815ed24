#!/usr/bin/env bats
# bats file_tags=cgroup
# Signals, cancellation and limits behave as without a container: each test does the same to both.
load helper

setup_file() {
  start_faulty
}

teardown_file() {
  kill -CONT "$(cat "$BATS_FILE_TMPDIR/faulty.pid")"
  stop_faulty
}

setup() {
  cancel_everything
}

trap_script="trap 'echo got USR1; exit 5' USR1; echo ready; while :; do sleep 0.1; done"

# Starts srun with the given options in the background; its output goes to $out, its pid is $step.
# A shell starts its background commands with SIGINT ignored, which a terminal does not.
start_step() {
  out=$BATS_TEST_TMPDIR/out.$RANDOM
  env --default-signal=INT "$box" run -u alice -- srun -w n1 "$@" > "$out" 2>&1 3>&- &
  step=$!
  wait_until 20 grep -q ready "$out"
}

# Waits for the step and leaves its exit code in $code.
wait_step() {
  code=0
  wait "$step" || code=$?
}

@test "scancel --signal reaches the task" {
  start_step --container-image="$image" sh -c "$trap_script"
  root scancel --signal=USR1 -u alice
  wait_step
  expect_equal "$code" 5
  grep -q 'got USR1' "$out"
}

# Where Slurm finds processes by their parents (proctrack/linuxproc), each of a step gets such a signal.
@test "scancel --signal reaches the tasks of a named container, whose files stay while they end" {
  script='trap "sleep 0.5; cat /etc/debian_version > /dev/null && echo got it; exit 0" TERM; echo ready
    while :; do sleep 0.1; done'
  for words in "--container-image=$image --container-name=signals" "berth run --name signals $image"; do
    # shellcheck disable=SC2086
    start_step $words sh -c "$script"
    root scancel --signal=TERM -u alice
    wait_step
    expect_equal "$(grep -c '^got it$' "$out")" 1
    expect_equal "$(grep -c 'has ended' "$out" || true)" 0
    wait_until 20 no_jobs
    alice srun -w n1 berth rm --force signals
  done
}

@test "scancel ends a step with the code that it has without a container" {
  start_step sh -c 'echo ready; sleep 600'
  root scancel -u alice
  wait_step
  plain=$code
  wait_until 20 no_jobs
  start_step --container-image="$image" sh -c 'echo ready; sleep 600'
  root scancel -u alice
  wait_step
  expect_equal "$code" "$plain"
}

@test "Ctrl-C twice ends a step with the code that it has without a container" {
  start_step sh -c 'echo ready; sleep 600'
  interrupt_twice "$step" "$out"
  wait_step
  plain=$code
  wait_until 20 no_jobs
  start_step --container-image="$image" sh -c 'echo ready; sleep 600'
  interrupt_twice "$step" "$out"
  wait_step
  expect_equal "$code" "$plain"
  wait_until 20 no_jobs
  expect_no_leftovers
}

@test "SIGTERM of srun ends the step as without a container" {
  start_step sh -c 'echo ready; sleep 600'
  kill -TERM "$step"
  wait_step
  plain=$code
  wait_until 20 no_jobs
  start_step --container-image="$image" sh -c 'echo ready; sleep 600'
  kill -TERM "$step"
  wait_step
  expect_equal "$code" "$plain"
  wait_until 20 no_jobs
  expect_no_leftovers
}

@test "a trap of the task runs when the job is cancelled" {
  start_step --container-image="$image" sh -c \
    "trap 'echo got TERM; exit 6' TERM; echo ready; while :; do sleep 0.1; done"
  root scancel -u alice
  wait_step
  grep -q 'got TERM' "$out"
}

# One minute is the smallest limit that one can ask for, so the limits are shortened. slurmctld looks at them every
# 30 s. The third step waits for a registry that does not answer; a task that misses SIGTERM ends by SIGKILL.
@test "hostile row 64: the time limit ends a step with the code that it has without a container, also one that waits" {
  kill -STOP "$(cat "$BATS_FILE_TMPDIR/faulty.pid")"
  root bash -c "rm -rf $state/nodes/n1/store/*"
  alice srun -w n1 --time=1 --container-image="$faulty/slow:latest" /bare > "$BATS_TEST_TMPDIR/waiting" 2>&1 3>&- &
  waiting=$!
  wait_until 20 root pgrep -x berth-task
  start_step --time=1 sh -c 'echo ready; sleep 600'
  first=$step first_out=$out
  start_step --time=1 --container-image="$image" sh -c 'echo ready; sleep 600'
  for job in $(root squeue --noheader --format=%A); do root scontrol update "jobid=$job" EndTime=now+1; done
  plain=0; wait "$first" || plain=$?
  wait_step
  expect_equal "$code" "$plain"
  code=0; wait "$waiting" || code=$?
  kill -CONT "$(cat "$BATS_FILE_TMPDIR/faulty.pid")"
  expect_equal "$code" "$plain"
  grep -q 'DUE TO TIME LIMIT' "$BATS_TEST_TMPDIR/waiting"
  grep -q 'DUE TO TIME LIMIT' "$first_out"
  grep -q 'DUE TO TIME LIMIT' "$out"
  wait_until 20 no_jobs
  expect_no_leftovers
}
