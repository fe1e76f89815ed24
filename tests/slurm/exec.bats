#!/usr/bin/env bats
# Steps that join a container that runs: by its name, or by the step it belongs to.
load helper

setup() {
  cancel_everything
  alice srun -w n1 berth rm --force exec 2> /dev/null || true
  in_home 'rm -f started joined alone'
}

teardown() {
  cancel_everything
  alice srun -w n1 berth rm --force exec 2> /dev/null || true
}

# A step that runs in a container until it is ended: start_first OPTIONS...
start_first() {
  alice srun -w n1 --container-image="$image" --container-mounts=/home/alice "$@" \
    bash -c 'cd /var; export FIRST=1; echo first > /tmp/first;
      echo $SLURM_JOB_ID.$SLURM_STEP_ID > /home/alice/started; sleep 600' \
      > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  wait_until 20 alice test -s started
}

# shellcheck disable=SC2016
look='cat /tmp/first; echo "$PWD ${FIRST-pristine} $IMAGE_VAR"; readlink /proc/self/ns/mnt /proc/self/ns/net'

# bats test_tags=guest
@test "a second step joins: same files and namespaces, the image's environment and working directory" {
  start_first --container-name=exec --container-unshare=net
  run -0 alice srun -w n1 --container-name=exec:exec sh -c "$look"
  expect_output_like $'^first\n/srv pristine from-image\n'
  expect_equal "$(grep -c "$(readlink /proc/self/ns/net)" <<< "$output" || true)" 0
  run -0 alice srun -w n1 -n2 --container-name=exec --container-workdir=/tmp sh -c pwd
  expect_equal "$output" $'/tmp\n/tmp'
}

@test "a step without a name is joined by JOB.STEP, and by that alone while it runs" {
  start_first
  step=$(alice cat started)
  run -0 alice srun -w n1 --container-name="$step" sh -c "$look"
  expect_output_like $'^first\n/srv pristine from-image\n'
  run -0 alice srun -w n1 --container-name="$step:exec" true
  run "$box" run -u bob -- srun -w n1 --container-name="$step:exec" true
  expect_failure
  cancel_everything
  run alice srun -w n1 --container-name="$step:exec" true
  expect_failure
  expect_output_like "there is none of that name"
}

@test "joining ignores mounts and the home aloud, and refuses what the container has not" {
  start_first --container-name=exec
  run -0 alice srun -w n1 --container-name=exec --container-mounts=/tmp:/mnt/test sh -c 'test ! -e /mnt/test'
  expect_output_like "ignoring --container-mounts:"
  run -0 alice srun -w n1 --container-name=exec --container-mount-home true
  expect_output_like "ignoring --container-mount-home:"
  for namespace in net:network ipc:IPC uts:UTS; do
    run alice srun -w n1 --container-name=exec --container-unshare="${namespace%:*}" true
    expect_failure
    expect_one_error_line
    expect_output_like "not in a separate ${namespace#*:} namespace"
  done
  run alice srun -w n1 --container-name=exec --container-remap-root true
  expect_failure
  expect_output_like "not started with"
}

# A second step, in $output, that works on after $first, which ends when it is joined: go_on_alone OPTIONS AND
# COMMAND...
go_on_alone() {
  alice srun -w n1 "$@" > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  local second=$!
  wait "$first"
  # As long as whatever ends with a step may take.
  sleep 1
  alice touch alone
  wait "$second"
  output=$(cat "$BATS_TEST_TMPDIR/second")
}

# bats test_tags=cgroup, guest
@test "the container outlives the step that started it for as long as another is in it" {
  in_home "srun -w n1 --container-name=exec --container-image=$image --container-mounts=/home/alice sh -c \
      'touch /home/alice/started; until test -e /home/alice/joined; do sleep 0.1; done; echo first done'" \
      > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  first=$!
  wait_until 20 alice test -e started
  go_on_alone --container-name=exec:exec sh -c \
    'touch /home/alice/joined; until test -e /home/alice/alone; do sleep 0.1; done; only-in-image'
  expect_equal "$output" "only in the image"
  expect_no_leftovers
}

@test "no_exec on one that runs works on the same files with mounts, root and memory of its own" {
  start_first --container-name=exec
  run -0 alice srun -w n1 --container-name=exec:no_exec --container-remap-root --container-mounts=/home/bob:/opt/bob \
    sh -c \
    'touch /opt/second /run/second; id -u; findmnt -n -o TARGET /opt/bob;
      findmnt /home/alice || only-in-image; echo $IMAGE_VAR'
  expect_equal "$output" $'0\n/opt/bob\nonly in the image\nfrom-image'
  run -0 alice srun -w n1 --container-name=exec sh -c \
    'id -u; test -e /opt/second; test ! -e /run/second; findmnt -n -o TARGET /home/alice'
  expect_equal "$output" $'2001\n/home/alice'
}

# bats test_tags=cgroup
@test "no_exec: the files are served for as long as the last one needs them, and its end leaves nothing" {
  in_home "srun -w n1 --container-name=exec --container-image=$image --container-mounts=/home/alice sh -c \
      'touch /home/alice/started; until test -e /home/alice/joined; do sleep 0.1; done'" > "$BATS_TEST_TMPDIR/first" \
      2>&1 3>&- &
  first=$!
  wait_until 20 alice test -e started
  go_on_alone --container-name=exec:no_exec --container-mounts=/home/alice sh -c \
    'touch /home/alice/joined; until test -e /home/alice/alone; do sleep 0.1; done; only-in-image; echo x > /opt/late'
  expect_equal "$output" "only in the image"
  expect_no_leftovers
  run -0 alice srun -w n1 --container-name=exec cat /opt/late
  for how in remove cancel; do
    in_home 'rm -f started second'
    start_first --container-name=exec
    in_home "srun -w n1 --container-name=exec:no_exec --container-mounts=/home/alice \
      sh -c 'touch /home/alice/second; sleep 600'" \
      > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
    wait_until 20 alice test -e second
    if [[ $how == remove ]]; then alice srun -w n1 berth rm --force exec; else root scancel -u alice; fi
    expect_no_leftovers
    cancel_everything
  done
  expect_nodes_up
}
