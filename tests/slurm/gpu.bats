#!/usr/bin/env bats
# bats file_tags=cgroup
# GPUs and MIG devices of a job, by fake nodes that Slurm's device cgroups know (scripts/box/devices.sh). Where the box
# does not constrain devices, Slurm's numbers say what was granted, and the containers are the same.
load helper

gpu1=GPU-bbbbbbbb-0000-0000-0000-000000000001
gpu3=GPU-eeeeeeee-0000-0000-0000-000000000003
mig7=MIG-dddddddd-0000-0000-0000-000000000007
mig8=MIG-dddddddd-0000-0000-0000-000000000008

# What a task has of the driver's nodes, but for those that all have; what it may open of them; and what it is told.
look='cd /dev; o=; for f in nvidia? nvidia-caps/*; do if test -r $f; then o="$o ${f##*cap}"; fi; done
  echo "$SLURM_PROCID:$o CVD=$CUDA_VISIBLE_DEVICES ROCR=$ROCR_VISIBLE_DEVICES" \
    "ZE=$ZE_AFFINITY_MASK ORD=$GPU_DEVICE_ORDINAL"'

with_gpus() { in_home "export NVIDIA_VISIBLE_DEVICES=all; srun -w n1 --container-image=$image $*"; }

constrained() { grep -q '^[0-9]* 1 ' "$state/variant"; }

# Another user has the first GPU, so that numbers of the job are not those of the node.
setup_file() {
  load helper
  bob srun -w n1 --gres=gpu:h100:1 sleep 3600 > /dev/null 2>&1 3>&- &
  wait_until 20 bash -c "'$box' run -- squeue -h -u bob -t R | grep -q ."
}

teardown_file() {
  load helper
  cancel_everything
}

# The tasks' lines for options of srun: row OPTIONS CONSTRAINED OPEN, a line a task.
row() {
  local wanted=$3
  if constrained; then wanted=$2; fi
  run -0 with_gpus "$1 sh -c '$look'"
  expect_equal "$(sort <<< "$output")" "$wanted"
}

# TASK NODES CVD [OTHERS]: the line of a task whose other variables have that value.
line() { echo "$1: $2 CVD=$3 ROCR=${4-$3} ZE=${4-$3} ORD=${4-$3}"; }

# UUIDS POSITIONS: what Slurm gives the other vendors' variables for MIG devices. From 25.11 on these are positions.
others() {
  local release
  release=$(root sinfo --version)
  release=${release##* }
  if [[ $(printf '%s\n' 25.11 "$release" | sort -V | head -n 1) == 25.11 ]]; then echo "$2"; else echo "$1"; fi
}

@test "two whole GPUs" {
  row --gres=gpu:h100:2 "$(line 0 'nvidia1 nvidia3' 0,1)" "$(line 0 'nvidia1 nvidia3' "$gpu1,$gpu3" 0,1)"
}

@test "two whole GPUs, one for each task" {
  row '-n2 --gres=gpu:h100:2 --gpu-bind=single:1' "$(line 0 nvidia1 0; line 1 nvidia3 0)" \
    "$(line 0 'nvidia1 nvidia3' "$gpu1" 0; line 1 'nvidia1 nvidia3' "$gpu3" 1)"
}

@test "two MIG devices" {
  both=$(line 0 'nvidia2 336 337 345 346' "$mig7,$mig8" "$(others "$mig7,$mig8" 0,1)")
  row --gres=gpu:1g.10gb:2 "$both" "$both"
}

# bats test_tags=guest
@test "two MIG devices, one for each task" {
  row '-n2 --gres=gpu:1g.10gb:2 --gpu-bind=per_task:1' \
    "$(line 0 'nvidia2 336 337' "$mig7" "$(others "$mig7" 0)"; line 1 'nvidia2 345 346' "$mig8" 0)" \
    "$(line 0 'nvidia2 336 337 345 346' "$mig7" "$(others "$mig7" 0)"
      line 1 'nvidia2 336 337 345 346' "$mig8" "$(others "$mig8" 1)")"
}

@test "a MIG device for each task, by its type" {
  row '-n2 --gpus-per-task=1g.10gb:1' \
    "$(line 0 'nvidia2 336 337' "$mig7" "$(others "$mig7" 0)"; line 1 'nvidia2 345 346' "$mig8" 0)" \
    "$(line 0 'nvidia2 336 337 345 346' "$mig7" "$(others "$mig7" 0)"
      line 1 'nvidia2 336 337 345 346' "$mig8" "$(others "$mig8" 1)")"
}

@test "a whole GPU beside a MIG device" {
  both=$(line 0 'nvidia1 nvidia2 336 337' "$gpu1,$mig7" 0,1)
  row --gres=gpu:h100:1,gpu:1g.10gb:1 "$both" "$both"
}

@test "a step without GPUs has none where devices are constrained, whatever the image asks for and its job's variables say" {
  none=$(line 0 '' '' | sed 's/:  /: /')
  # Where nothing constrains it, a step can open the node's devices and so can its container.
  local all="GPU-aaaaaaaa-0000-0000-0000-000000000000,$gpu1,$mig7,$mig8,${mig8/%8/9},$gpu3"
  if ! constrained; then none=$(line 0 'nvidia0 nvidia1 nvidia2 nvidia3 336 337 345 346 354 355' "$all" ''); fi
  row --gres=none "$none" "$none"
  # A job's variable tells that the step is one of a job with GPUs, and has none itself.
  local leaking="SLURM_JOB_GPUS=1 srun --gres=none --container-image=$image sh -c \"\$1\""
  run -0 in_home "export NVIDIA_VISIBLE_DEVICES=all; salloc -Q -w n1 --gres=gpu:h100:1 sh -c '$leaking' sh '$look'"
  expect_equal "$output" "$(line 0 '' '' | sed 's/:  /: /')"
}

# bats test_tags=guest
@test "a step with one of its job's two GPUs has that one's node, and one with --gres=none has none" {
  local nodes='cd /dev; for f in nvidia?; do if test -e $f; then echo -n " $f"; fi; done' none=
  # shellcheck disable=SC2016
  local steps='for gres in gpu:h100:1 gpu:h100:2 none; do for name in "" --container-name=of-$SLURM_JOB_ID-$gres; do
      echo "$gres:$(srun --gres=$gres ${name//:/-} --container-image="$1" sh -c "$2")"
      [[ -z $name ]] || srun --gres=none berth rm "of-$SLURM_JOB_ID-${gres//:/-}"
    done; done'
  run -0 in_home "export NVIDIA_VISIBLE_DEVICES=all
    salloc -Q -w n1 --gres=gpu:h100:2 bash -c '$steps' bash $image '$nodes'"
  constrained || none=' nvidia0 nvidia1 nvidia2 nvidia3'
  expect_equal "$output" "$(for gpus in 'gpu:h100:1: nvidia1' 'gpu:h100:2: nvidia1 nvidia3' "none:$none"; do
    echo "$gpus"; echo "$gpus"; done)"
}

@test "two steps of a job at once: each has its own GPUs, also where the job has the whole node" {
  local start="--exact --container-image=$image sh -c \"\$1; sleep 2\" sh \"\$1\""
  local one="srun -n1 --gres=gpu:h100:1 $start" two="srun -n1 --gres=gpu:h100:2 $start"
  local of_one of_two
  with_steps() { # NODE GRES STEPS
    run -0 in_home "export NVIDIA_VISIBLE_DEVICES=all; salloc -Q -w $1 -n2 --gres=$2 sh -c '$3' sh '$look'"
  }
  if constrained; then
    of_one="$(line 0 nvidia1 0; line 0 nvidia3 0)" of_two=$(line 0 'nvidia1 nvidia3' 0,1)
  else
    of_one="$(line 0 nvidia1 "$gpu1" 0; line 0 nvidia3 "$gpu3" 0)"
    of_two=$(line 0 'nvidia1 nvidia3' "$gpu1,$gpu3" 0,1)
  fi
  with_steps n1 gpu:h100:2 "$one & $one & wait"
  expect_equal "$(sort <<< "$output")" "$of_one"
  with_steps n2 gpu:h100:3,gpu:1g.10gb:3 "$one & sleep 1; $two & wait"
  expect_equal "$(sort <<< "$output")" "$(line 0 nvidia0 0; echo "$of_two")"
}

@test "berth devices in a step lists what the step's containers get, and why not the rest" {
  local given='s/.*"name":"\([^"]*\)".*"container":true.*/\1/p' reason="Slurm has not granted it: "
  run -0 alice srun -w n1 --gres=gpu:h100:2 berth devices --json
  expect_equal "$(sed -n "$given" <<< "$output" | xargs)" "nvidia1 nvidia3"
  if constrained; then reason="this process may not open /dev/nvidia0"; fi
  grep -q "\"name\":\"nvidia0\".*\"reason\":\"$reason" <<< "$output"
  run -0 alice srun -w n1 --gres=gpu:1g.10gb:1 berth devices --json
  expect_equal "$(sed -n "$given" <<< "$output" | xargs)" "nvidia2 nvidia2/gi7/ci0"
  expect_output_like "\"id\":\"$mig7\""
  run -0 alice srun -w n1 --gres=gpu:h100:1 berth devices
  expect_output_like "nvidia: driver 570.86.15, CUDA up to 12.8"
}

@test "the driver's files" {
  local files='ls /proc/driver/nvidia/gpus | xargs; cat /proc/driver/nvidia/params;
    ls /usr/lib/x86_64-linux-gnu/libcuda.so.1; ldconfig -p | grep -c libcuda'
  run -0 with_gpus "--gres=gpu:h100:2 sh -c '$files'"
  expect_equal "${lines[0]}" "0000:2b:00.0 0000:4b:00.0"
  expect_equal "${lines[1]}" "ModifyDeviceFiles: 0"
  expect_equal "${lines[2]}" "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  (( lines[3] >= 2 ))
}

@test "an image with variables, labels, an fstab, hooks, CDI specifications and settings gets the step's devices and nothing else" {
  layout=$BATS_TEST_TMPDIR/greedy
  python3 -B "$repo/tests/registry/greedy_image.py" "$("$repo/scripts/make-test-image" --base)" "$layout"
  skopeo --insecure-policy copy --quiet --dest-tls-verify=false "oci:$layout" "docker://$registry/debian:greedy"
  local search='ls -d /ran-hook /stolen/*; grep -c stolen /proc/self/mounts; ls /dev | grep -v std'
  run -0 in_home "srun -w n1 --gres=gpu:1g.10gb:1 --container-image=$registry/debian:greedy sh -c '$look; $search'"
  plain=$(alice srun -w n1 --container-image="$image" ls /dev | grep -v std)
  expect_equal "${lines[0]}" "$(line 0 'nvidia2 336 337' "$mig7" "$(others "$mig7" 0)")"
  expect_output_like "/ran-hook': No such file"
  expect_output_like "/stolen/\*': No such file"
  expect_equal "$(tail -n +2 <<< "$output" | grep -v 'No such file' | sort)" \
    "$(printf '%s\n' 0 nvidia-caps nvidia-uvm nvidia2 nvidiactl "$plain" | sort)"
  run ! alice test -e ran-hook
}

@test "a step prints its plan on each node and then runs" {
  run -0 in_home \
    "NVIDIA_VISIBLE_DEVICES=all BERTH_PLAN=1 srun -N2 -n4 --gres=gpu:1g.10gb:1 --container-image=$image echo ran"
  expect_equal "$(grep -c '^ran$' <<< "$output")" 4
  for node in n1 n2; do
    expect_equal "$(grep -c "berth: $node: WHAT  *WHERE  *FROM  *WHOSE  *WHY" <<< "$output")" 1
    bound="berth: $node: bind  *\(/dev/nvidia2\|/dev/nvidia-caps/nvidia-cap336\)"
    bound+="  *.* rw,dev  *hook nvidia  *.*MIG device"
    expect_equal "$(grep -c "$bound" <<< "$output")" 2
  done
  run ! in_home "BERTH_PLAN=perhaps srun -w n1 --container-image=$image true"
  expect_output_like "BERTH_PLAN=perhaps: write 1, true, yes or on, or 0, false, no or off"
  expect_one_error_line
  run -0 --separate-stderr in_home "BERTH_PLAN=0 srun -w n1 --container-image=$image true"
  expect_equal "$stderr" ""
}

@test "a named container is planned when it starts, and those who join are told that it runs" {
  run -0 in_home "BERTH_PLAN=1 salloc -Q -w n1 -n2 --overcommit sh -c '
    srun -n1 --overlap --container-name=planned --container-image=$image sleep 3 &
    sleep 1.5
    srun -n1 --overlap --container-name=planned true
    wait'"
  alice srun -w n1 berth rm planned
  expect_equal "$(grep -c 'berth: n1: WHAT' <<< "$output")" 1
  expect_output_like "container planned: it runs already, as its first step planned it"
}

@test "a step's GPU that the image does not ask for is told of in one line, once for all nodes" {
  run -0 in_home "srun -N2 -n2 --gres=gpu:1g.10gb:1 --container-image=$image echo ran"
  expect_one_error_line
  expect_output_like 'this step has a GPU that the image does not ask for; set NVIDIA_VISIBLE_DEVICES=all for it'
  run -0 in_home "NVIDIA_VISIBLE_DEVICES=void srun -w n1 --gres=gpu:1g.10gb:1 --container-image=$image echo ran"
  expect_equal "$output" ran
}

@test "a GPU of somebody else, an image that is too new: one line, nothing started" {
  run ! in_home \
    "NVIDIA_VISIBLE_DEVICES=GPU-aaaaaaaa-0000-0000-0000-000000000000 srun -w n1 --gres=gpu:h100:1 \
      --container-image=$image true"
  expect_output_like "is not allocated to this step"
  expect_one_error_line
  run ! in_home \
    "NVIDIA_VISIBLE_DEVICES=all NVIDIA_REQUIRE_CUDA='cuda>=99' srun -w n1 --gres=gpu:h100:1 \
      --container-image=$image true"
  expect_output_like "needs NVIDIA_REQUIRE_CUDA=cuda>=99 and this node has driver 570.86.15, CUDA up to 12.8"
  expect_one_error_line
  # A step that may open no GPU runs all the same.
  if constrained; then
    run -0 in_home \
      "NVIDIA_VISIBLE_DEVICES=all NVIDIA_REQUIRE_CUDA='cuda>=99' srun -w n1 --container-image=$image echo ran"
    expect_equal "$output" ran
  fi
}

@test "a CDI device, and a program of the site" {
  root bash -c 'mkdir -p /etc/cdi /etc/berth/hooks.d
    echo "{\"cdiVersion\":\"0.5.0\",\"kind\":\"berth.test/gpu\",\"devices\":[{\"name\":\"x\",\"containerEdits\":
      {\"deviceNodes\":[{\"path\":\"/dev/odd\",\"hostPath\":\"/dev/nvidia1\"}],\"env\":[\"CDI=yes\"]}}]}" \
        > /etc/cdi/test.json
    printf "#!/bin/bash\necho \"{\\\\\"env\\\\\":[\\\\\"HOOK=\$(id -un)\\\\\"]}\"\n" > /etc/berth/hooks.d/a.sh;
      chmod 755 /etc/berth/hooks.d/a.sh'
  run in_home \
    "BERTH_DEVICES=berth.test/gpu=x srun -w n1 --container-image=$image sh -c 'ls /dev/odd; echo \$CDI \$HOOK'"
  first=$output
  root chmod 777 /etc/berth/hooks.d/a.sh
  run contained true
  root bash -c 'rm -rf /etc/cdi /etc/berth/hooks.d'
  expect_equal "$first" $'/dev/odd\nyes alice'
  expect_output_like "hooks.d/a.sh: somebody else than root can write to it"
}
