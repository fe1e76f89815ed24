#!/usr/bin/env bats
# gres/shard: steps that have shards of a GPU, by fake nodes that Slurm's device cgroups know.
load site

# shellcheck disable=SC2016
look='cd /dev; o=; for f in nvidia[0-9]*; do if test -r $f; then o="$o $f"; fi; done
  echo "$o CVD=$CUDA_VISIBLE_DEVICES STEP=$SLURM_STEP_GPUS SHARDS=$SLURM_SHARDS_ON_NODE"'

setup_file() {
  site_up --cgroup --with shard
  occupy_first_gpu
}

teardown_file() { cancel_everything; }

@test "shard: a container has the GPU that the shards are of, and Slurm's variables" {
  local bare
  bare=$(alice srun -w n1 --gres=shard:1 sh -c "$look")
  expect_equal "$bare" " nvidia1 CVD=0 STEP=1 SHARDS=1"
  run -0 with_gpus "srun -w n1 --gres=shard:1 --container-image=$image sh -c '$look'"
  expect_equal "$output" "$bare"
  run -0 with_gpus "srun -w n1 --gres=shard:1 --container-image=$image sh -c 'echo /dev/nvidia[0-9]*'"
  expect_equal "$output" /dev/nvidia1
}

@test "shard: berth devices tells of the GPU that the shards are of" {
  run -0 alice srun -w n1 --gres=shard:1 berth devices
  expect_equal "$(awk '$1 == "nvidia" && / yes +yes / { print $2 }' <<< "$output")" nvidia1
}

@test "shard: two steps of a job share its GPU at once" {
  run -0 with_gpus "salloc -Q -w n1 -n2 --overcommit --gres=shard:2 bash -c '
    for i in 1 2; do srun -n1 --overlap --gres=shard:1 --container-image=$image sh -c \"\$1; sleep 2\" sh \"\$1\" & done
    wait' bash '$look'"
  expect_equal "$output" $' nvidia1 CVD=0 STEP=1 SHARDS=1\n nvidia1 CVD=0 STEP=1 SHARDS=1'
}
