#!/usr/bin/env bats
# The options' grammar is checked where the job is submitted, at once, with a caret under the mistake.
load helper

# The submit side refuses: nothing is queued.
expect_refused() {
  local before
  before=$(next_job)
  run "$@"
  expect_failure
  expect_output_like '\^'
  expect_equal "$(next_job)" "$before"
}

expect_refused_line() {
  local before
  before=$(next_job)
  run "$@"
  expect_failure
  expect_output_like "berth: .*container-"
  expect_equal "$(next_job)" "$before"
}

@test "srun, sbatch and salloc refuse a bad image with a caret" {
  expect_refused alice srun --container-image=Not/An/Image:::x true
  expect_refused alice sbatch --container-image=Not/An/Image:::x --wrap true
  expect_refused alice salloc --container-image=Not/An/Image:::x true
}

@test "a bad mount, an unknown mount flag and a bad variable name are refused with a caret" {
  expect_refused alice srun --container-image="$image" --container-mounts=in:/data true
  expect_refused alice srun --container-image="$image" --container-mounts=/tmp:/data:sideways true
  expect_refused alice srun --container-image="$image" --container-env=1BAD true
}

@test "row 19: an option given twice: the last one counts, with one line that says so" {
  for command in srun "$sbatch_wait"; do
    [[ $command == srun ]] && words=(pwd) || words=(-o out --wrap pwd)
    run -0 alice "$command" -w n1 --container-image="$registry/debian:none" --container-workdir=/tmp \
      --container-image="$image" --container-workdir=/srv --container-workdir=/srv "${words[@]}"
    expect_output_like "berth: --container-workdir is given twice; the last one counts: /srv"
    expect_output_like "berth: --container-image is given twice; the last one counts: $image"
    expect_equal "$(grep -c 'given twice' <<< "$output")" 2
    [[ $command == srun ]] || output=$(alice cat out)
    expect_equal "$(grep '^/' <<< "$output")" /srv
  done
  alice rm -f out
}

@test "--container-writable with --container-readonly is an error" {
  run alice srun --container-image="$image" --container-writable --container-readonly true
  expect_failure
}

@test "a wrong digest form never becomes a path or a request" {
  mark_log
  for digest in sha256:../../x sha256:ABC sha256:abc; do
    run alice srun --container-image="$registry/debian@$digest" true
    expect_failure
  done
  expect_equal "$(count_since '[A-Z]+' /)" 0
}

@test "a bad name, a directory to save in, both entrypoints: refused at submission" {
  for option in name=/tmp/foo name=:attach name=dev:attach "name=$(printf 'a%.0s' {1..300})" save=/tmp/ save=/ \
      save=./; do
    expect_refused_line alice srun --container-image="$image" --container-"$option" true
  done
  expect_refused_line alice sbatch --container-image="$image" --container-name=a/b --wrap true
  expect_refused_line alice srun --container-image="$image" --container-entrypoint --no-container-entrypoint true
}

@test "srun --help names the options" {
  run -0 alice srun --help
  for option in image mounts workdir env name save unshare entrypoint entrypoint-log mount-home remap-root writable \
      readonly; do
    expect_output_like "--(\[no-\])?container-$option"
  done
}

# The whole message, whatever it is, is on the submit side: nothing is queued, and no node saw it.
expect_refused_plainly() {
  local before
  before=$(next_job)
  run "$@"
  expect_failure
  expect_equal "$(next_job)" "$before"
}

@test "an option without its argument is refused" {
  # Of image, name and environment it means none: ways.bats.
  for option in mounts workdir env save unshare; do
    expect_refused_plainly alice srun --container-$option= true
  done
}

@test "an image reference of three kilobytes with line ends is refused in one message" {
  run alice srun --container-image="$(head -c 2048 /dev/urandom | base64)" true
  expect_failure
  expect_one_error_line
}

@test "images that are a directory without a root file system, a device and the node's root are refused" {
  run -127 in_home 'mkdir -p empty; srun -w n1 --container-image=./empty true'
  expect_output_like "not found in the container"
  run alice srun -w n1 --container-image=/dev/urandom true
  expect_failure
  expect_output_like "/dev/urandom.*no regular file"
  run alice srun -w n1 --container-image=/ true
  expect_failure
  expect_output_like "root of this node"
  expect_nodes_up
}

@test "mounts that have no source, no target or too much are refused with a caret" {
  for value in : /tmp: :/data /tmp:data /tmp:/data:ro:x ,/tmp /tmp,, tmpfs devpts:/x /tmp:/data:suid; do
    expect_refused alice srun --container-image="$image" --container-mounts="$value" true
  done
}

@test "mounts over what must be there are refused" {
  for target in / /proc /proc/sys /sys /dev /data/../..; do
    expect_refused alice srun --container-image="$image" --container-mounts="/tmp:$target" true
  done
}

@test "a list of variables with a hole, a value or a blank is refused" {
  for value in FOO, ,FOO FOO,,BAR FOO=1 'FOO BAR' 9FOO; do
    expect_refused alice srun --container-image="$image" --container-env="$value" true
  done
}

@test "a working directory below /proc and one of 5000 characters are refused" {
  expect_refused alice srun --container-image="$image" --container-workdir=/proc/self/fd/3 true
  expect_refused alice srun --container-image="$image" --container-workdir="/$(printf 'a%.0s' {1..5000})" true
}

@test "opposite flags are refused, also one of the variable against one of the other" {
  expect_refused_plainly alice srun --container-image="$image" --container-remap-root --no-container-remap-root true
  expect_refused_plainly in_home \
    "BERTH_CONTAINER_WRITABLE=1 PYXIS_CONTAINER_READONLY=1 srun --container-image=$image true"
}

@test "an unknown kind of source and an unknown option are refused" {
  expect_refused_plainly alice srun --container-image=http://example.org/image true
  expect_refused_plainly alice srun --container-image="$image" --container-nonsense true
}

@test "an identical repeat of an option is allowed" {
  run -0 alice srun -w n1 --container-image="$image" --container-image="$image" --container-workdir=/tmp \
    --container-workdir=/tmp pwd
  expect_equal "$output" /tmp
}
