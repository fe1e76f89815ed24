#!/usr/bin/env bats
# --container-save: the container as one file after the last task.
load helper

setup() {
  in_home 'rm -rf saved; mkdir saved'
}

teardown() {
  cancel_everything
  in_home 'rm -rf saved'
}

@test "what the tasks wrote is in the file when srun returns; an old file is replaced; relative to the job's directory" {
  run -0 contained -n2 --container-save=/home/alice/saved/a.sqsh sh -c 'echo $SLURM_PROCID >> /opt/tasks'
  expect_output_like "saved the container as /home/alice/saved/a.sqsh"
  run -0 in_home \
    "cd saved; srun -w n1 --container-image=./a.sqsh --container-save=a.sqsh \
      sh -c 'sort /opt/tasks | xargs; echo \$IMAGE_VAR; touch /opt/more' \
      2> /dev/null"
  expect_equal "$output" $'0 1\nfrom-image'
  run -0 in_home "cd saved; srun -w n1 --container-image=./a.sqsh test -e /opt/more 2> /dev/null && ls -A"
  expect_equal "$output" a.sqsh
  expect_no_leftovers
}

@test "a command that fails is saved all the same, with its own exit code" {
  run -3 contained --container-save=/home/alice/saved/a.sqsh sh -c 'touch /opt/work; exit 3'
  run -0 in_home "srun -w n1 --container-image=./saved/a.sqsh test -e /opt/work"
}

@test "on two nodes the first one saves, or each with %N" {
  run -0 alice srun -N2 --container-image="$image" --container-save=saved/a.sqsh sh -c 'echo $SLURM_NODEID > /opt/node'
  run -0 in_home "srun -w n1 --container-image=./saved/a.sqsh cat /opt/node 2> /dev/null"
  expect_equal "$output" 0
  run -0 alice srun -N2 --container-image="$image" --container-save=saved/%N.sqsh true
  run -0 in_home "ls saved"
  expect_equal "$output" $'a.sqsh\nn1.sqsh\nn2.sqsh'
}

@test "a folder that cannot be written to is an error before the tasks; a start that fails saves nothing" {
  run contained --container-save=/no/such/a.sqsh touch /home/alice/ran
  expect_failure
  expect_one_error_line
  expect_output_like "saving the container as /no/such/a.sqsh"
  run ! contained --container-save=saved/a.sqsh --container-workdir=/not/there true
  run ! alice test -e saved/a.sqsh
}

@test "with a name, and by variable" {
  run -0 in_home \
    "PYXIS_CONTAINER_SAVE=saved/a.sqsh srun -w n1 --container-image=$image --container-name=save-test touch /opt/named"
  run -0 in_home "srun -w n1 --container-image=./saved/a.sqsh test -e /opt/named; srun -w n1 berth rm save-test"
}

a_save_runs() {
  local pid
  for pid in $(berth_processes); do
    [[ $(tr '\0' ' ' < "$(box_proc)/$pid/cmdline") != *berth-pull\ save* ]] || echo "$pid"
  done > "$BATS_TEST_TMPDIR/saver"
  [[ -s $BATS_TEST_TMPDIR/saver ]]
}

save_has_ended() {
  ! root kill -0 "$(cat "$BATS_TEST_TMPDIR/saver")" && ! kill -0 "$step"
}

# bats test_tags=cgroup
@test "a step that is cancelled while it is saved ends at once, with the file as it was before" {
  in_home 'echo before > saved/a.sqsh'
  for how in job step; do
    in_home "srun -w n1 --container-image=$image --container-save=saved/a.sqsh \
      sh -c 'head -c 300000000 /dev/urandom > /opt/work'" > "$BATS_TEST_TMPDIR/out" \
      2>&1 3>&- &
    step=$!
    wait_until 30 a_save_runs
    # Nothing of what it reads or writes may hold it up.
    root kill -STOP "$(cat "$BATS_TEST_TMPDIR/saver")"
    job=$(root squeue --noheader --states=RUNNING --format %A)
    [[ $how == job ]] || job=$job.0
    root scancel "$job"
    within 5 save_has_ended
    wait "$step" || true
    output=$(cat "$BATS_TEST_TMPDIR/out")
    expect_output_like "cancelled while its container was saved"
    expect_equal "$(alice ls -A saved)" a.sqsh
    expect_equal "$(alice cat saved/a.sqsh)" before
    expect_no_leftovers
  done
  wait_until 30 "$box" status
}

@test "what root inside wrote is saved, and what its tasks left running is ended before" {
  run -0 contained --container-remap-root --container-save=saved/a.sqsh sh -c \
    'mkdir -m 0 /opt/closed; echo x > /opt/closed/x; chmod 0 /opt/closed/x; sleep 600 > /dev/null 2>&1 &'
  expect_output_like "saved the container as"
  run -0 in_home "srun -w n1 --container-image=./saved/a.sqsh --container-remap-root cat /opt/closed/x 2> /dev/null"
  expect_equal "$output" x
  expect_no_leftovers
}

# bats test_tags=cgroup
@test "a step that is cancelled in its work is saved, and leaves nothing else" {
  in_home 'rm -f started'
  in_home "srun -w n1 --container-image=$image --container-mounts=/home/alice --container-save=saved/a.sqsh sh -c \
      'touch /opt/work /home/alice/started; sleep 600'" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 alice test -e started
  root scancel -u alice
  wait "$!" || true
  wait_until 10 alice test -e saved/a.sqsh
  expect_no_leftovers
}
