#!/usr/bin/env bats
# bats file_tags=cgroup
# GPUs and MIG devices of a job, by fake nodes that Slurm's device cgroups know (scripts/box/devices.sh). Where the box does not constrain devices, Slurm's
# numbers say what was granted, and the containers are the same.
load helper

gpu0=GPU-aaaaaaaa-0000-0000-0000-000000000000
mig7=MIG-dddddddd-0000-0000-0000-000000000007
mig8=MIG-eeeeeeee-0000-0000-0000-000000000008

# What a task sees: the driver's nodes but for those that all have, and its choice.
look='cd /dev; echo $(ls -d nvidia? nvidia-caps/* 2> /dev/null) CVD=$CUDA_VISIBLE_DEVICES'

with_gpus() { in_home "export NVIDIA_VISIBLE_DEVICES=all; srun -w n1 --container-image=$image $*"; }

constrained() { grep -q '^[0-9]* 1 ' "$state/variant"; }

@test "two whole GPUs, and the driver's files" {
  run -0 with_gpus "--gres=gpu:h100:2 sh -c \
      '$look; ls /proc/driver/nvidia/gpus | xargs; cat /proc/driver/nvidia/params; ls /usr/lib/x86_64-linux-gnu/libcuda.so.1; ldconfig -p | grep -c libcuda'"
  expect_equal "${lines[0]}" "nvidia0 nvidia1 CVD=0,1"
  expect_equal "${lines[1]}" "0000:1b:00.0 0000:2b:00.0"
  expect_equal "${lines[2]}" "ModifyDeviceFiles: 0"
  expect_equal "${lines[3]}" "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  (( lines[4] >= 2 ))
}

@test "a MIG device is its parent and its own nodes, and its task gets its UUID" {
  run -0 with_gpus "--gres=gpu:1g.10gb:1 sh -c '$look'"
  expect_equal "$output" "nvidia-caps/nvidia-cap2 nvidia9 CVD=$mig7"
}

@test "a whole GPU beside a MIG device" {
  run -0 with_gpus "--gres=gpu:h100:1,gpu:1g.10gb:1 sh -c '$look'"
  expect_equal "$output" "nvidia-caps/nvidia-cap2 nvidia0 nvidia9 CVD=$gpu0,$mig7"
}

@test "each of two tasks with a GPU of its own is told so" {
  run -0 with_gpus "-n2 --gres=gpu:1g.10gb:2 --gpu-bind=single:1 sh -c '$look'"
  if constrained; then
    expect_equal "$(sed 's/.*CVD=//' <<< "$output" | sort | xargs)" "$mig7 $mig8"
  fi
  expect_output_like "nvidia-caps/nvidia-cap2 nvidia-caps/nvidia-cap3 nvidia9"
}

@test "a job without GPUs has none, whatever the image asks for" {
  run -0 with_gpus "--gres=none sh -c '$look'"
  if constrained; then expect_equal "$output" "CVD="; fi
}

@test "a GPU of somebody else, an image that is too new: one line, nothing started" {
  run ! in_home "NVIDIA_VISIBLE_DEVICES=GPU-bbbbbbbb-0000-0000-0000-000000000001 srun -w n1 --gres=gpu:h100:1 --container-image=$image true"
  expect_output_like "is not allocated to this step"
  expect_one_error_line
  run ! in_home "NVIDIA_VISIBLE_DEVICES=all NVIDIA_REQUIRE_CUDA='cuda>=99' srun -w n1 --gres=gpu:h100:1 --container-image=$image true"
  expect_output_like "needs NVIDIA_REQUIRE_CUDA=cuda>=99 and this node has driver 570.86.15, CUDA up to 12.8"
  expect_one_error_line
}

@test "a CDI device, and a program of the site" {
  root bash -c 'mkdir -p /etc/cdi /etc/berth/hooks.d
    echo "{\"cdiVersion\":\"0.5.0\",\"kind\":\"berth.test/gpu\",\"devices\":[{\"name\":\"x\",\
\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/odd\",\"hostPath\":\"/dev/nvidia1\"}],\"env\":[\"CDI=yes\"]}}]}" > /etc/cdi/test.json
    printf "#!/bin/bash\necho \"{\\\\\"env\\\\\":[\\\\\"HOOK=\$(id -un)\\\\\"]}\"\n" > /etc/berth/hooks.d/a.sh; chmod 755 /etc/berth/hooks.d/a.sh'
  run in_home "BERTH_DEVICES=berth.test/gpu=x srun -w n1 --container-image=$image sh -c 'ls /dev/odd; echo \$CDI \$HOOK'"
  first=$output
  root chmod 777 /etc/berth/hooks.d/a.sh
  run contained true
  root bash -c 'rm -rf /etc/cdi /etc/berth/hooks.d'
  expect_equal "$first" $'/dev/odd\nyes alice'
  expect_output_like "hooks.d/a.sh: somebody else than root can write to it"
}
