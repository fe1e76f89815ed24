#!/usr/bin/env bats
# Devices of a container beside GPUs (gpu.bats), as scripts written for Enroot expect them: RDMA adapters without
# asking, device files by --container-mounts. The nodes are of the kernel's own devices, under the names of adapters.
load helper

# The files below /dev/infiniband that can be read, on each node.
readable='for f in /dev/infiniband/*; do if head -c 1 "$f" > /dev/null 2>&1; then echo "$(hostname) ${f##*/}"; fi; done'

on_node() { root nsenter --target "$(root cat "/run/slurmd.$1.pid")" --mount -- "${@:2}"; }

constrained() { grep -q '^[0-9]* 1 ' "$state/variant"; }

setup_file() {
  load helper
  root bash -c 'cd /dev && rm -rf infiniband && mkdir -m 755 infiniband box-closed &&
    mknod -m 666 infiniband/uverbs0 c 1 5 &&
    mknod -m 666 infiniband/rdma_cm c 1 5 && mknod -m 600 infiniband/issm0 c 1 5 &&
    mknod -m 600 box-closed/node c 1 5 && mknod -m 666 box-open c 1 5'
  local node
  for node in n1 n2; do
    on_node "$node" bash -c 'mount -t tmpfs box-test /sys/class && cd /sys/class &&
      mkdir -p infiniband_verbs/uverbs0 infiniband/mlx5_0 && echo mlx5_0 > infiniband_verbs/uverbs0/ibdev'
  done
}

teardown_file() {
  load helper
  cancel_everything
  local node
  for node in n1 n2; do on_node "$node" umount -l /sys/class; done
  root bash -c 'cd /dev && rm -rf infiniband box-closed box-open'
}

teardown() { restore_site; }

@test "row 1: RDMA adapters that the step may open are in its containers without asking" {
  run -0 --separate-stderr alice srun -N2 -w n1,n2 --container-image="$image" sh -c "$readable"
  expect_equal "$(sort <<< "$output")" $'n1 rdma_cm\nn1 uverbs0\nn2 rdma_cm\nn2 uverbs0'
  run -0 in_home "MELLANOX_VISIBLE_DEVICES=none srun -w n1 --container-image=$image ls /dev"
  run ! grep infiniband <<< "$output"
}

@test "row 1: a step of several nodes without the adapters that they have is told once, and one of one node not" {
  with_site_lines '[devices]' 'rdma = "asked"'
  run -0 alice srun -N2 -w n1,n2 --container-image="$image" true
  expect_equal "$(without_progress <<< "$output")" "berth: n1: warning: the container has none of the 1 RDMA adapter \
of this node, and MPI and NCCL use TCP between nodes: devices.rdma of berth.conf is \"asked\"; \
set MELLANOX_VISIBLE_DEVICES=all"
  run -0 contained true
  expect_equal "$(without_progress <<< "$output")" ""
  run -0 in_home "MELLANOX_VISIBLE_DEVICES=all srun -w n1 --container-image=$image sh -c '$readable'"
  expect_output_like 'n1 uverbs0'
}

@test "row 1: a step inside a batch job is told by its own first node" {
  with_site_lines '[devices]' 'rdma = "off"'
  run -0 in_home \
    "sbatch --wait -N2 -w n1,n2 -o out --wrap 'srun -N2 --container-image=$image true' > /dev/null; cat out"
  expect_equal "$(grep -c 'warning: .*none of the 1 RDMA adapter.*devices.rdma of berth.conf is off' <<< "$output")" 1
}

@test "row 1: a step of several nodes with adapters is told once that it may lock too little memory for them" {
  local step="ulimit -l 4096; srun -w n1,n2 --container-image=$image"
  run -0 --separate-stderr alice bash -c "$step -N2 true"
  # shellcheck disable=SC2154
  expect_equal "$(without_progress <<< "$stderr")" "berth: n1: warning: a task may lock only 4194304 bytes of memory, \
too little for RDMA: raise the limit where slurmd runs (LimitMEMLOCK=infinity) and see --propagate"
  run -0 --separate-stderr alice bash -c "${step/-w n1,n2/-w n1} -N1 true"
  expect_equal "$(without_progress <<< "$stderr")" ""
}

@test "row 8: device files and folders of them work in --container-mounts, as far as the user may open them" {
  run -0 alice srun -w n1 --container-mounts=/dev/infiniband,/dev/box-open:/dev/other,/dev/fuse \
    --container-image="$image" sh -c \
    "$readable; head -c 1 /dev/other | od -An -tu1; head -c 1 /dev/infiniband/issm0; test -w /dev/fuse && echo fuse"
  expect_equal "$(grep -v issm0 <<< "$output")" $'n1 rdma_cm\nn1 uverbs0\n   0\nfuse'
  expect_output_like 'issm0.*Permission denied'
}

@test "row 8: a device that the user may not open is one line that says what to do" {
  run contained --container-mounts=/dev/infiniband/issm0 true
  expect_failure
  expect_one_error_line
  expect_output_like 'mounting /dev/infiniband/issm0 at .*: you may not open this device \(mode 0600\): an'
  run contained --container-mounts=/dev/box-closed:/dev/x true
  expect_failure
  expect_one_error_line
  expect_output_like 'mounting /dev/box-closed at /dev/x .*: you may not open this device \(mode 0600\)'
}

# bats test_tags=cgroup
@test "row 8: a device that Slurm has not granted is one line that says so, where devices are constrained" {
  run contained --container-mounts=/dev/nvidia0:/dev/first test -c /dev/first
  if ! constrained; then
    expect_status 0
    return
  fi
  expect_failure
  expect_one_error_line
  expect_output_like 'mounting /dev/nvidia0 .*: the job may not open this device; ask Slurm for it, as with --gres'
}

@test "row 9: what scripts mount below /dev and /sys" {
  in_home 'mkdir -p in; echo content > in/x'
  run -0 contained --container-mounts=/dev/shm:/dev/shm,/home/alice/in:/dev/data,/home/alice/in:/sys/kernel \
    sh -c 'cat /dev/data/x /sys/kernel/x; stat -f -c %T /dev/shm'
  expect_equal "$output" $'content\ncontent\ntmpfs'
}

@test "/dev/fuse is in containers where the site allows it" {
  run -0 contained sh -c 'test -e /dev/fuse || echo none'
  expect_equal "$output" none
  with_site_lines '[devices]' 'fuse = true'
  run -0 contained sh -c 'test -c /dev/fuse && exec 3<> /dev/fuse && echo opened'
  expect_equal "$output" opened
}

@test "devices.restrict = false: the node's whole /dev, with terminals and shared memory" {
  run -0 contained sh -c 'test -e /dev/box-open || echo restricted'
  expect_equal "$output" restricted
  with_site_lines '[devices]' 'restrict = false'
  run -0 contained sh -c 'head -c 1 /dev/box-open | od -An -tu1; echo x > /dev/null; ls /dev/shm > /dev/null &&
    readlink /dev/fd; mknod /dev/mine c 1 3 2> /dev/null || echo kept'
  expect_equal "$output" $'   0\n/proc/self/fd\nkept'
  run -0 script -qec "'$box' run -u alice -- srun -w n1 --pty --container-image=$image sh -c 'tty; echo t > /dev/tty'" \
    /dev/null < /dev/null
  expect_output_like $'/dev/pts/[0-9]+\r?\nt'
}
