#!/usr/bin/env bats
# AMD GPUs in containers of steps. The nodes are the kernel's own devices under the names of GPUs; sysfs is a folder.
load helper

gpus='cd /dev && ls -d kfd dri/* | xargs'
variables='for name in ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL; do
  printenv $name || echo none; done | xargs'

on_node() { root nsenter --target "$(root cat "/run/slurmd.$1.pid")" --mount -- "${@:2}"; }

setup_file() {
  load helper
  root bash -c 'cd /dev && rm -rf kfd dri && mkdir -m 755 dri && mknod -m 666 kfd c 1 5 &&
    for i in 0 1 2 3; do mknod -m 666 dri/renderD$((128 + i)) c 1 5; done'
  # Two CPUs come first in the kernel's list.
  on_node n1 bash -euc 'for folder in class module; do mount -t tmpfs box-test /sys/$folder; done
    for i in 0 1 2 3; do
      mkdir -p /sys/module/amdgpu/drivers/pci:amdgpu/0000:0$((i + 3)):00.0/drm/renderD$((128 + i))
      node=/sys/class/kfd/kfd/topology/nodes/$((i + 2))
      mkdir -p $node
      printf "%s\n" "drm_render_minor $((128 + i))" "location_id $(((i + 3) * 256))" "domain 0" "unique_id $((i + 7))" \
        > $node/properties
    done'
}

teardown_file() {
  load helper
  cancel_everything
  on_node n1 umount -l /sys/class /sys/module
  root rm -rf /dev/kfd /dev/dri
}

@test "AMD GPUs that the step may open are in its containers without asking, or those that the job names" {
  run -0 contained sh -c "$gpus"
  expect_equal "$output" 'dri/renderD128 dri/renderD129 dri/renderD130 dri/renderD131 kfd'
  run -0 in_home "AMD_VISIBLE_DEVICES=0,2-3 srun -w n1 --container-image=$image sh -c '$gpus'"
  expect_equal "$output" 'dri/renderD128 dri/renderD130 dri/renderD131 kfd'
  run -0 in_home "AMD_VISIBLE_DEVICES=none srun -w n1 --container-image=$image ls /dev"
  run ! grep kfd <<< "$output"
  run -125 in_home "AMD_VISIBLE_DEVICES=4 srun -w n1 --container-image=$image true"
  expect_output_like 'AMD_VISIBLE_DEVICES: 4 is not allocated: this step has 4 AMD GPUs, counted from 0'
}

@test "each task is told its AMD GPUs by their numbers in the container, and what counts behind them likewise" {
  run -0 alice srun -w n1 --gres=gpu:h100:2 sh -c "$variables"
  expect_equal "$output" '0,1 none 0,1'
  run -0 in_home "AMD_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0,1 \
    srun -w n1 -n2 --gres=gpu:h100:2 --container-image=$image sh -c '$gpus; $variables'"
  expect_equal "$(sort -u <<< "$output")" $'0 0 0\ndri/renderD129 kfd'
  # What somebody has set for HIP alone counts behind ROCm's own, and stays.
  run -0 in_home "AMD_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0 \
    srun -w n1 --gres=gpu:h100:2 --container-image=$image sh -c '$variables'"
  expect_equal "$output" '0 0 0'
}
