#!/usr/bin/env bats
# bats file_tags=cgroup
# Steps and jobs that use one named container at once: each has the GPUs that it was granted itself.
load helper

gpu0=GPU-aaaaaaaa-0000-0000-0000-000000000000
gpu1=GPU-bbbbbbbb-0000-0000-0000-000000000001

setup() {
  alice srun -w n1 berth rm --force shared 2> /dev/null || true
  in_home 'rm -rf joins; mkdir joins'
}

teardown() {
  cancel_everything
  alice srun -w n1 berth rm --force shared 2> /dev/null || true
}

constrained() { grep -q '^[0-9]* 1 ' "$state/variant"; }

# The GPUs whose files a task has, those that it may open, and what it is told.
look='cd /dev; h=; o=; for f in nvidia?; do if test -e $f; then h="$h $f"; fi; if test -r $f; then o="$o $f"; fi; done
  echo "$SLURM_STEP_GPUS has$h opens$o CVD=$CUDA_VISIBLE_DEVICES"'

# NUMBER UUID: the line of a task with that GPU alone. Where Slurm constrains devices, its numbers count a step's own.
own() {
  local told=$2
  if constrained || (( $1 == 0 )); then told=0; fi
  echo "$1 has nvidia$1 opens nvidia$1 CVD=$told"
}

# srun in alice's home, with what all of these steps ask for.
step() {
  echo "srun -w n1 -n1 --container-name=shared --container-image=$image --container-mounts=/home/alice/joins $*"
}

# Commands that wait until joins/FILE is there: await FILE.
await() { echo "until test -e /home/alice/joins/$1; do sleep 0.1; done"; }

with_gpus() { in_home "export NVIDIA_VISIBLE_DEVICES=all; $1"; }

# A job with the first GPU, in the background, until joins/end is there.
start_first() {
  with_gpus "$(step --gres=gpu:h100:1) sh -c '$look > /home/alice/joins/first; touch /tmp/of-first /opt/of-first
    echo \$SLURM_JOB_ID > /home/alice/joins/job; $(await end)'" > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  first=$!
  wait_until 30 alice test -s joins/job
  expect_equal "$(alice cat joins/first)" "$(own 0 "$gpu0")"
}

@test "two steps of a job in one named container: each has its own GPU, and its variables name that" {
  local one two
  one=$(step --exact --gres=gpu:h100:1)
  two="$one sh -c \"\$1; test -e /opt/of-first && touch /home/alice/joins/end\""
  one="$one sh -c \"\$1; touch /opt/of-first /home/alice/joins/begun; $(await end)\""
  run -0 with_gpus "salloc -Q -w n1 -n2 --gres=gpu:h100:2 bash -c '$one > joins/first & $(await begun); $two; wait' \
    bash '$look'"
  expect_equal "$output" "$(own 1 "$gpu1")"
  expect_equal "$(alice cat joins/first)" "$(own 0 "$gpu0")"
}

# bats test_tags=guest
@test "two jobs in one named container: each has its own GPU, and the second goes on when the first has ended" {
  start_first
  with_gpus "$(step --gres=gpu:h100:1) sh -c '$look > /home/alice/joins/second; $(await alone)
    test -e /opt/of-first && only-in-image'" > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  local second=$!
  wait_until 30 alice test -s joins/second
  expect_equal "$(alice cat joins/second)" "$(own 1 "$gpu1")"
  alice touch joins/end
  wait "$first"
  wait_until 20 job_has_ended "$(alice cat joins/job)"
  alice touch joins/alone
  wait "$second"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" "only in the image"
  expect_no_leftovers
}

# With its epilog, after which the node has no group of it any more.
job_has_ended() { ! root squeue -h -t R,CG -o %A | grep -qx "$1"; }

@test "a step with a GPU joins one without: it has the GPU and the driver's libraries, and the other still has none" {
  local one two
  # By the job's variable the step has no GPU, also where nothing constrains it.
  one="SLURM_JOB_GPUS=0 $(step --overlap --gres=none) sh -c \"\$1; touch /home/alice/joins/begun; $(await end); \$1\""
  two="$(step --overlap --gres=gpu:h100:1) sh -c \"\$1; test -e /usr/lib/*/libcuda.so.1 &&
    ldconfig -p | grep -c libcuda.so.1; touch /home/alice/joins/end\""
  run -0 with_gpus "salloc -Q -w n1 -n2 --gres=gpu:h100:1 bash -c '$one > joins/first & $(await begun); $two; wait' \
    bash '$look'"
  expect_equal "$output" "$(own 0 "$gpu0")"$'\n1'
  expect_equal "$(alice cat joins/first)" $' has opens CVD=\n has opens CVD='
}

@test "a step with the container's own GPU joins it; exec with another one is one line that names no_exec" {
  start_first
  local job
  job=$(alice cat joins/job)
  run -0 with_gpus "srun --jobid=$job --overlap --container-name=shared:exec sh -c '$look; test -e /tmp/of-first'"
  expect_equal "$output" "$(own 0 "$gpu0")"
  run -0 with_gpus "srun --jobid=$job --overlap --container-name=$job.0 sh -c '$look; test -e /tmp/of-first'"
  expect_equal "$output" "$(own 0 "$gpu0")"
  run with_gpus "srun -w n1 --gres=gpu:h100:1 --container-name=shared:exec true"
  expect_status 125
  expect_one_error_line
  expect_output_like "lacks nvidia1; --container-name=shared:no_exec gives this step its own, over the same files"
  run -0 with_gpus "srun -w n1 --gres=gpu:h100:1 --container-name=shared:no_exec \
    sh -c '$look; test ! -e /tmp/of-first && test -e /opt/of-first'"
  expect_equal "$output" "$(own 1 "$gpu1")"
  # A shell without a GPU: what it may not open does no harm.
  run with_gpus "srun --jobid=$job --overlap --gres=none --container-name=shared:exec test -e /tmp/of-first"
  if constrained; then
    expect_status 0
  else
    expect_status 125
    expect_output_like "--container-name=shared:no_exec gives this step its own"
  fi
  # A container that is called by its step has no other way, so that what it lacks is only told.
  run with_gpus "srun -w n1 --gres=gpu:h100:1 --container-name=$job.0 test -e /tmp/of-first"
  if constrained; then
    expect_status 0
    expect_output_like "container $job.0: it lacks nvidia1"
  else
    expect_status 125
    expect_output_like "lacks nvidia1; ask for them as well, or use berth exec; :no_exec is for containers with a name"
  fi
  # Without an image of its own it is told that the mounts are not those of the first one.
  run -0 with_gpus "srun -w n1 --gres=gpu:h100:1 --container-name=shared sh -c '$look'"
  expect_output_like "container shared: it runs already, with other devices: .*lacks nvidia1; this step has mounts and"
  expect_equal "$(grep CVD= <<< "$output")" "$(own 1 "$gpu1")"
  alice touch joins/end
  wait "$first"
}
