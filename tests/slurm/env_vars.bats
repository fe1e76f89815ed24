#!/usr/bin/env bats
# Options by variables, BERTH_CONTAINER_* and PYXIS_CONTAINER_*: as the flag would do, and the flag wins.
load helper

with() { in_home "$1 srun -w n1 $2"; }

@test "BERTH_CONTAINER_IMAGE and PYXIS_CONTAINER_IMAGE stand for --container-image" {
  run -0 with "BERTH_CONTAINER_IMAGE=$image" only-in-image
  expect_equal "$output" "only in the image"
  run -0 with "PYXIS_CONTAINER_IMAGE=$image" only-in-image
  expect_equal "$output" "only in the image"
}

@test "a variable works whatever --export lets through" {
  run -0 with "PYXIS_CONTAINER_IMAGE=$image PYXIS_CONTAINER_WORKDIR=/srv" "--export=NONE /bin/pwd"
  expect_equal "$output" /srv
}

@test "a flag beats the variable of its option and of the opposite one" {
  run -0 with "PYXIS_CONTAINER_IMAGE=no.such.registry/x PYXIS_CONTAINER_WORKDIR=/srv" "--container-image=$image --container-workdir=/tmp pwd"
  expect_equal "$output" /tmp
  run with "PYXIS_CONTAINER_WRITABLE=1" "--container-image=$image --container-readonly touch /newfile"
  expect_failure
  expect_output_like "Read-only file system"
  run -0 with "PYXIS_CONTAINER_REMAP_ROOT=1" "--container-image=$image --no-container-remap-root id -u"
  expect_equal "$output" "$(alice id -u)"
}

@test "a flag beats a variable that is wrong" {
  run -0 with "PYXIS_CONTAINER_IMAGE=Not/An/Image:::x" "--container-image=$image true"
  expect_equal "$output" ""
}

@test "PYXIS_CONTAINER_MOUNTS mounts, and the flag replaces it" {
  run -0 with "PYXIS_CONTAINER_MOUNTS=/home:/test-mnt" "--container-image=$image sh -c 'test -d /test-mnt/alice'"
  run -0 with "PYXIS_CONTAINER_MOUNTS=/home:/mnt-env" "--container-image=$image --container-mounts=/tmp:/mnt-cli sh -c 'test -d /mnt-cli && test ! -e /mnt-env'"
}

@test "PYXIS_CONTAINER_MOUNT_HOME and _REMAP_ROOT take 1 and 0" {
  run -0 with "PYXIS_CONTAINER_MOUNT_HOME=1 PYXIS_CONTAINER_REMAP_ROOT=1" "--container-image=$image sh -c 'grep -q \" /root \" /proc/self/mountinfo; id -u'"
  expect_equal "$output" 0
  run -0 with "PYXIS_CONTAINER_MOUNT_HOME=0 PYXIS_CONTAINER_REMAP_ROOT=1" "--container-image=$image sh -c '! grep -q \" /root \" /proc/self/mountinfo'"
  run -0 with "PYXIS_CONTAINER_REMAP_ROOT=0" "--container-image=$image id -u"
  expect_equal "$output" "$(alice id -u)"
}

@test "PYXIS_CONTAINER_WRITABLE and _READONLY, each as yes and no" {
  for setting in PYXIS_CONTAINER_WRITABLE=1 PYXIS_CONTAINER_READONLY=no; do
    run -0 with "$setting" "--container-image=$image touch /newfile"
  done
  for setting in PYXIS_CONTAINER_WRITABLE=0 PYXIS_CONTAINER_READONLY=true; do
    run with "$setting" "--container-image=$image touch /newfile"
    expect_failure
    expect_output_like "Read-only file system"
  done
}

@test "PYXIS_CONTAINER_ENV lets the host's value win, and the flag replaces the list" {
  run -0 with "IMAGE_VAR=host PYXIS_CONTAINER_ENV=IMAGE_VAR" "--container-image=$image printenv IMAGE_VAR"
  expect_equal "$output" host
  run -0 with "IMAGE_VAR=host PYXIS_CONTAINER_ENV=IMAGE_VAR" "--container-image=$image --container-env=HOME printenv IMAGE_VAR"
  expect_equal "$output" from-image
}

@test "a mistake in a variable is refused at submission and names it" {
  run with "PYXIS_CONTAINER_REMAP_ROOT=perhaps" "--container-image=$image true"
  expect_failure
  expect_output_like "PYXIS_CONTAINER_REMAP_ROOT=perhaps"
  run with "BERTH_CONTAINER_MOUNTS=in:/data" "--container-image=$image true"
  expect_failure
  expect_output_like "BERTH_CONTAINER_MOUNTS.*container-mounts"
  run with "BERTH_CONTAINER_IMAGE=a PYXIS_CONTAINER_IMAGE=b" true
  expect_failure
  expect_output_like "PYXIS_CONTAINER_IMAGE: contradicts"
  run in_home "PYXIS_CONTAINER_IMAGE=Not/An/Image:::x sbatch --wrap true"
  expect_failure
  expect_output_like "PYXIS_CONTAINER_IMAGE"
}

@test "other variables without an image are said to be ignored" {
  run -0 with "PYXIS_CONTAINER_WORKDIR=/srv" true
  expect_output_like "ignoring --container-workdir"
}

@test "sbatch: the batch script and its steps run in the image of the variable" {
  in_home "printf '#!/bin/sh\nonly-in-image\nsrun only-in-image\n' > vars.sh; PYXIS_CONTAINER_IMAGE=$image sbatch -W -w n1 -o vars.out vars.sh" || true
  run -0 in_home "cat vars.out; rm vars.sh vars.out"
  expect_output_like "^only in the image"
}

@test "salloc: the variable of a step inside beats that of the allocation" {
  run -0 in_home "PYXIS_CONTAINER_WORKDIR=/srv salloc -w n1 sh -c 'PYXIS_CONTAINER_WORKDIR=/tmp srun --container-image=$image pwd' 2>/dev/null"
  expect_equal "$output" /tmp
}
