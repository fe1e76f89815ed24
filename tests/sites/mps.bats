#!/usr/bin/env bats
# gres/mps: steps that have a share of a GPU, by fake nodes that Slurm's device cgroups know.
load site

# What may be opened of GPUs, and what Slurm has said of them.
# shellcheck disable=SC2016
look='cd /dev; o=; for f in nvidia[0-9]*; do if test -r $f; then o="$o $f"; fi; done
  echo "$o CVD=$CUDA_VISIBLE_DEVICES STEP=$SLURM_STEP_GPUS MPS=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'

setup_file() {
  site_up --cgroup --with mps
  occupy_first_gpu
}

teardown_file() { cancel_everything; }

@test "mps: a container has the GPU of its share, and Slurm's variables" {
  local bare
  bare=$(alice srun -w n1 --gres=mps:25 sh -c "$look")
  [[ $bare == " nvidia1 CVD=0 STEP=1 MPS="[1-9]* ]] || fail "$bare"
  run -0 with_gpus "srun -w n1 --gres=mps:25 --container-image=$image sh -c '$look'"
  expect_equal "$output" "$bare"
  run -0 with_gpus "srun -w n1 --gres=mps:25 --container-image=$image sh -c 'ls -d /dev/nvidia[0-9]*'"
  expect_equal "$output" /dev/nvidia1
}

@test "mps: the pipe of the service that the job names is in the container" {
  root mkdir -p -m 755 /tmp/nvidia-mps_1
  run -0 with_gpus "export CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps_1
    srun -w n1 --gres=mps:25 --container-image=$image \
      sh -c 'grep -c \" \$CUDA_MPS_PIPE_DIRECTORY \" /proc/self/mountinfo'"
  root rmdir /tmp/nvidia-mps_1
  expect_equal "$output" 1
}

@test "mps: a step that asks for none in a job with a share has no GPU" {
  run -0 with_gpus "salloc -Q -w n1 --gres=mps:25 srun --gres=none --container-image=$image sh -c '$look'"
  expect_equal "$output" " CVD= STEP= MPS="
}
