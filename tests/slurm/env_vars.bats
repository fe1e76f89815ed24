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

@test "a flag beats a variable that is wrong" {
  run -0 with "PYXIS_CONTAINER_IMAGE=Not/An/Image:::x" "--container-image=$image true"
  expect_equal "$output" ""
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
  in_home "printf '#!/bin/sh\nonly-in-image\nsrun only-in-image\n' > vars.sh;
    PYXIS_CONTAINER_IMAGE=$image $sbatch_wait -w n1 -o vars.out vars.sh" || true
  run -0 in_home "cat vars.out; rm vars.sh vars.out"
  expect_output_like "^only in the image"
}

@test "salloc: the variable of a step inside beats that of the allocation" {
  run -0 in_home \
    "PYXIS_CONTAINER_WORKDIR=/srv salloc -w n1 \
      sh -c 'PYXIS_CONTAINER_WORKDIR=/tmp srun --container-image=$image pwd' 2>/dev/null"
  expect_equal "$output" /tmp
}

home_mounts="grep -cE ' (/root|/home/alice) ' /proc/self/mountinfo || true"

expect_read_only() {
  run with "$1" "--container-image=$image $2 touch /newfile"
  expect_failure
  expect_output_like "Read-only file system"
}

@test "a flag beats the variable of its option and of the opposite one" {
  run -0 with "PYXIS_CONTAINER_IMAGE=no.such.registry/x PYXIS_CONTAINER_WRITABLE=0" \
    "--container-image=$image --container-writable touch /newfile"
}

@test "MOUNTS mounts" {
  run -0 with "PYXIS_CONTAINER_MOUNTS=/home:/test-mnt,tmpfs:/scratch" \
    "--container-image=$image sh -c 'test -d /test-mnt/alice && touch /scratch/x'"
}

@test "MOUNTS: the flag replaces all of it" {
  run -0 with "PYXIS_CONTAINER_MOUNTS=/home:/mnt-env" \
    "--container-image=$image --container-mounts=/tmp:/mnt-cli sh -c 'test -d /mnt-cli && test ! -e /mnt-env'"
}

@test "WORKDIR is where the command starts" {
  run -0 with "PYXIS_CONTAINER_WORKDIR=/usr/local/bin" "--container-image=$image pwd"
  expect_equal "$output" /usr/local/bin
}

@test "WORKDIR: the flag wins" {
  run -0 with "PYXIS_CONTAINER_WORKDIR=/usr/local/bin" "--container-image=$image --container-workdir=/tmp pwd"
  expect_equal "$output" /tmp
}

@test "MOUNT_HOME=1 mounts the home" {
  run -0 with "PYXIS_CONTAINER_MOUNT_HOME=1" "--container-image=$image sh -c \"$home_mounts\""
  expect_equal "$output" 1
}

@test "MOUNT_HOME=0 does not" {
  run -0 with "PYXIS_CONTAINER_MOUNT_HOME=0" "--container-image=$image sh -c \"$home_mounts\""
  expect_equal "$output" 0
}

@test "MOUNT_HOME: the flag wins" {
  run -0 with "PYXIS_CONTAINER_MOUNT_HOME=1" "--container-image=$image --no-container-mount-home sh -c \"$home_mounts\""
  expect_equal "$output" 0
}

@test "REMAP_ROOT=1 makes root" {
  run -0 with "PYXIS_CONTAINER_REMAP_ROOT=1" "--container-image=$image id -u"
  expect_equal "$output" 0
}

@test "REMAP_ROOT=0 does not" {
  run -0 with "PYXIS_CONTAINER_REMAP_ROOT=0" "--container-image=$image id -u"
  expect_equal "$output" 2001
}

@test "REMAP_ROOT: the flag wins" {
  run -0 with "PYXIS_CONTAINER_REMAP_ROOT=1" "--container-image=$image --no-container-remap-root id -u"
  expect_equal "$output" 2001
}

@test "WRITABLE=1 lets write" {
  run -0 with "PYXIS_CONTAINER_WRITABLE=1" "--container-image=$image touch /newfile"
}

@test "WRITABLE=0 does not" {
  expect_read_only PYXIS_CONTAINER_WRITABLE=0 ""
}

@test "WRITABLE: the flag of the opposite wins" {
  expect_read_only PYXIS_CONTAINER_WRITABLE=1 --container-readonly
}

@test "READONLY=1 lets nothing be written" {
  expect_read_only PYXIS_CONTAINER_READONLY=1 ""
}

@test "READONLY=0 lets write" {
  run -0 with "PYXIS_CONTAINER_READONLY=0" "--container-image=$image touch /newfile"
}

@test "READONLY: the flag wins" {
  expect_read_only PYXIS_CONTAINER_READONLY=0 --container-readonly
}

@test "each spelling of yes and no is understood" {
  for word in true yes y on TRUE; do
    run -0 with "BERTH_CONTAINER_REMAP_ROOT=$word" "--container-image=$image id -u"
    expect_equal "$output" 0
  done
  for word in false no n off False; do
    run -0 with "BERTH_CONTAINER_REMAP_ROOT=$word" "--container-image=$image id -u"
    expect_equal "$output" 2001
  done
}

@test "ENV lets the host's value win" {
  run -0 with "IMAGE_VAR=host PYXIS_CONTAINER_ENV=IMAGE_VAR" "--container-image=$image printenv IMAGE_VAR"
  expect_equal "$output" host
}

@test "ENV: the flag replaces the list" {
  run -0 with "IMAGE_VAR=host PYXIS_CONTAINER_ENV=IMAGE_VAR" \
    "--container-image=$image --container-env=HOME printenv IMAGE_VAR"
  expect_equal "$output" from-image
}

@test "UNSHARE makes namespaces, and the flag replaces the list" {
  show='readlink /proc/self/ns/uts /proc/self/ns/ipc'
  run -0 alice srun -w n1 sh -c "$show"
  node=("${lines[@]}")
  run -0 with "PYXIS_CONTAINER_UNSHARE=uts" "--container-image=$image sh -c '$show'"
  [[ ${lines[0]} != "${node[0]}" && ${lines[1]} == "${node[1]}" ]]
  run -0 with "PYXIS_CONTAINER_UNSHARE=uts" "--container-image=$image --container-unshare=ipc sh -c '$show'"
  [[ ${lines[0]} == "${node[0]}" && ${lines[1]} != "${node[1]}" ]]
}

@test "the names of the options are left for nodes of another release, whatever --export lets through" {
  run -0 with "PYXIS_CONTAINER_WRITABLE=no" "--export=NONE --container-image=$image printenv SLURM_BERTH_OPTIONS"
  expect_equal "$output" "container-image container-readonly"
  # Those of a job around a step are not the step's.
  run in_home "SLURM_BERTH_OPTIONS=container-magic srun -w n1 printenv SLURM_BERTH_OPTIONS"
  expect_failure
  run -0 in_home "$sbatch_wait -w n1 -o names.out --container-image=$image --wrap 'echo \$SLURM_BERTH_OPTIONS'; \
    cat names.out"
  expect_output_like "container-image$"
}

@test "a variable that means nothing is told in one line, with what may be meant" {
  run -0 with "BERTH_CONTAINER_IMAG=$image" "cat /etc/hostname"
  expect_one_error_line
  expect_output_like "berth: no variable of Berth's, and without effect: BERTH_CONTAINER_IMAG"
  expect_output_like "did you mean BERTH_CONTAINER_IMAGE\\?"
  # Of a key the first node tells, which reads berth.conf.
  run -0 in_home "BERTH_STORE_PUL=never srun -N2 -n2 --container-image=$image only-in-image"
  expect_one_error_line
  expect_output_like "without effect: BERTH_STORE_PUL \\(did you mean BERTH_STORE_PULL\\?\\)"
  run -0 with "BERTH_CONTAINER_IMAGE=$image BERTH_STORE_PULL=missing BERTH_DEVICES= BERTH_EMPTY=" only-in-image
  expect_equal "$output" "only in the image"
  run -0 in_home "BERTH_CONTAINER_IMAG=x sbatch --wait --wrap true"
  expect_one_error_line
}
