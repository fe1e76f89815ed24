#!/usr/bin/env bats
# --container-mounts=FILE:DST:squashfs.
load helper

setup_file() {
  for name in enroot apptainer; do root ln -sf berth "/usr/bin/$name"; done
}

teardown_file() {
  for name in enroot apptainer; do root rm -f "/usr/bin/$name"; done
}

setup() {
  in_home 'umask 022; rm -rf tree *.sqsh *.toml; mkdir -p tree/sub; echo of-the-data > tree/sub/name
    mksquashfs tree data.sqsh -noappend -quiet -no-progress'
}

teardown() { in_home 'fusermount3 -u place; rm -rf outer place' > /dev/null 2>&1 || true; }

mounts=./data.sqsh:/new/data:squashfs

@test "what is in a squashfs file is there for all tasks of a step, read-only, and goes with it" {
  run -0 in_home "srun -N2 --container-image=$image --container-mounts=$mounts cat /new/data/sub/name"
  expect_equal "$output" $'of-the-data\nof-the-data'
  run in_home "srun --container-image=$image --container-mounts=$mounts touch /new/data/x"
  expect_failure
  expect_output_like "Read-only file system"
  run -0 in_home "srun --container-image=$image --container-mounts=$mounts \
    sh -c 'grep \" /new/data \" /proc/self/mountinfo'"
  expect_output_like "ro,nosuid,nodev"
  run -0 in_home 'pgrep -u alice -fc "berth ste[p]" || true'
  expect_equal "$output" 0
}

@test "several of them, at the job's step and in an environment file as CSCS writes it" {
  in_home 'mksquashfs tree/sub more.sqsh -noappend -quiet -no-progress -comp xz
    printf "image = \"%s\"\nmounts = [\"%s/more.sqsh:/more:sqsh\"]\n" "'"$image"'" "$PWD" > edf.toml'
  run -0 in_home "srun --container-environment=./edf.toml \
    --container-mounts=$mounts,./data.sqsh:/again:squashfs+noexec \
    cat /more/name /new/data/sub/name /again/sub/name"
  expect_equal "$output" $'of-the-data\nof-the-data\nof-the-data'
}

@test "a named container has it in its next step too" {
  run -0 in_home "salloc -Q -w n1 sh -c 'srun --container-image=$image --container-name=withdata \
    --container-mounts=$mounts true; srun --container-name=withdata --container-mounts=$mounts cat /new/data/sub/name'"
  expect_equal "$output" of-the-data
  in_home 'srun -w n1 berth rm -f withdata'
}

@test "the same in the words of enroot and apptainer" {
  in_home "berth import -o image.sqsh $image" > /dev/null
  run -0 --separate-stderr in_home 'enroot start --mount ./data.sqsh:/data:squashfs:loop,ro image.sqsh \
    cat /data/sub/name'
  expect_equal "$output" of-the-data
  run -0 --separate-stderr in_home 'apptainer exec --bind data.sqsh:/data:image-src=/ image.sqsh cat /data/sub/name'
  expect_equal "$output" of-the-data
  run -0 --separate-stderr in_home 'apptainer exec --mount type=bind,source=data.sqsh,destination=/data,image-src=/ \
    image.sqsh cat /data/sub/name'
  expect_equal "$output" of-the-data
}

@test "mistakes are one line: rw at submission, what is missing or no squashfs file on the node" {
  run in_home "srun --container-image=$image --container-mounts=./data.sqsh:/data:squashfs+rw true"
  expect_failure
  expect_output_like "the flag 'rw' is not possible: what is in a squashfs file is a directory that is only read"
  run in_home "srun --container-image=$image --container-mounts=./gone.sqsh:/data:squashfs true"
  expect_failure
  expect_output_like "mounting /home/alice/gone.sqsh at /data .option --container-mounts.: the source path does not"
  in_home 'head -c 9000 /dev/urandom > junk.sqsh'
  run in_home "srun --container-image=$image --container-mounts=./junk.sqsh:/data:squashfs true"
  expect_failure
  expect_output_like "reading /home/alice/junk.sqsh: it is not a squashfs file"
  run -0 in_home "srun --container-image=$image --container-mounts=./gone.sqsh:/data:squashfs+nofail echo runs"
  expect_equal "$output" runs
}

@test "a file in a file system that only the user can read" {
  # As sshfs or another mount of the user's own: root and other users get nothing from it.
  in_home 'mkdir -p outer/in place; mv data.sqsh outer/in
    mksquashfs outer outer.sqsh -noappend -quiet -no-progress; squashfuse_ll outer.sqsh place' > /dev/null 2>&1 3>&-
  run ! root ls /home/alice/place
  run -0 --separate-stderr in_home "berth run --mount ./place/in/data.sqsh:/data:squashfs $image cat /data/sub/name"
  expect_equal "$output" of-the-data
}
