#!/usr/bin/env bats
# Steps of a real Slurm on a node with a real GPU, which its device cgroup keeps from steps without one (scripts/test
# gpu-slurm). The programs are those of this folder.
load ../slurm/helper

programs=$repo/${BUILD:-build}/tests

# A step in the test image with what a CUDA image says of itself, and the programs: contained_gpu OPTIONS COMMAND.
contained_gpu() {
  in_home "export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
    srun --container-image=$image --container-mounts=$programs:/gpu:ro,$shared:/shared $*"
}

gpus() { grep -o 'GPU-[0-9a-f-]*' | sort; }

setup() {
  shared=$(in_home 'mktemp -d ~/gpu.XXXXXX')
  node_gpus=$(root nvidia-smi -L | gpus)
}

teardown() {
  cancel_everything
}

@test "a step with the GPU sees what the node has, by nvidia-smi and by CUDA" {
  run -0 contained_gpu --gres=gpu:1 nvidia-smi -L
  expect_equal "$(gpus <<< "$output")" "$node_gpus"
  run -0 contained_gpu --gres=gpu:1 /gpu/gpu_sum
  expect_equal "$output" "$node_gpus right"
}

@test "a step without a GPU has none, in a container and outside" {
  run ! in_home "srun $programs/gpu_sum"
  run contained_gpu /gpu/gpu_sum
  expect_failure
  run -0 contained_gpu "sh -c 'ls -d /dev/nvidia[0-9]* 2>/dev/null; echo none'"
  expect_equal "$output" none
}

@test "of two steps of a job the one without a GPU cannot use it while the other does" {
  run -0 in_home "cat > job.sh <<'END'
#!/bin/bash
export NVIDIA_VISIBLE_DEVICES=all
srun --exact --overlap --gres=gpu:1 --container-image=$image --container-mounts=$programs:/gpu,$shared:/shared \
  /gpu/gpu_ipc give /shared/handle &
until [[ -e $shared/handle ]]; do sleep 0.1; done
srun --exact --overlap --gres=none --container-image=$image --container-mounts=$programs:/gpu /gpu/gpu_sum
echo \"without: \$?\"
srun --exact --overlap --gres=none --container-image=$image sh -c 'ls -d /dev/nvidia[0-9]*'
srun --exact --overlap --gres=gpu:1 --container-image=$image --container-mounts=$programs:/gpu,$shared:/shared \
  /gpu/gpu_ipc take /shared/handle
wait \$! 2>/dev/null; wait
END
  chmod +x job.sh; salloc -Q -n2 --gres=gpu:1 ./job.sh 2>&1"
  expect_output_like 'memory of another process: right'
  [[ $output =~ without:\ [1-9] ]] || fail "the step without a GPU computed:" "$output"
  [[ $output != *"$node_gpus right"* ]] || fail "$output"
}

@test "two tasks of a step share memory of the GPU" {
  run -0 contained_gpu -n2 --gres=gpu:1 \
    "sh -c 'if [ \$SLURM_PROCID = 0 ]; then role=give; else role=take; fi; exec /gpu/gpu_ipc \$role /shared/handle'"
  expect_equal "$output" 'memory of another process: right'
}

@test "what CUDA's images demand of the driver is checked, and a driver too old is told" {
  local demands='cuda>=12.0 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536'
  demands+=' brand=nvidia,driver>=550,driver<551 brand=nvidiartx,driver>=550,driver<551'
  run -0 in_home "export NVIDIA_VISIBLE_DEVICES=all NVIDIA_REQUIRE_CUDA='$demands'
    srun --gres=gpu:1 --container-image=$image nvidia-smi -L"
  expect_equal "$(gpus <<< "$output")" "$node_gpus"
  run in_home "export NVIDIA_VISIBLE_DEVICES=all NVIDIA_REQUIRE_CUDA='cuda>=99.0'
    srun --gres=gpu:1 --container-image=$image nvidia-smi -L"
  expect_failure
  expect_output_like 'the image needs NVIDIA_REQUIRE_CUDA=cuda>=99.0 and this node has driver'
}

@test "a named container made without the GPU has it in a step that has" {
  run -0 contained_gpu --container-name=tools "sh -c 'ls -d /dev/nvidia[0-9]* 2>/dev/null; echo none'"
  expect_equal "$output" none
  run -0 in_home "export NVIDIA_VISIBLE_DEVICES=all
    srun --gres=gpu:1 --container-name=tools --container-mounts=$programs:/gpu /gpu/gpu_sum"
  expect_equal "$output" "$node_gpus right"
}

@test "a cancelled step leaves nothing on the GPU" {
  local users='nvidia-smi --query-compute-apps=pid --format=csv,noheader'
  contained_gpu --gres=gpu:1 /gpu/gpu_ipc give /shared/held > /dev/null 2>&1 3>&- &
  wait_until 30 alice test -e "$shared/held"
  run -0 root $users
  [[ $output =~ ^[0-9] ]] || fail "no process on the GPU: $output"
  alice scancel -u alice
  wait_until 20 bash -c "[[ -z \$('$box' run -- $users) ]]"
}

@test "NVIDIA's libraries are the driver's, and the loader of the image finds them" {
  run -0 contained_gpu --gres=gpu:1 "sh -c 'ldconfig -p | grep -c libcuda.so.1; cat /proc/driver/nvidia/version'"
  expect_output_like "^1"
  expect_output_like "$(root nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
}
