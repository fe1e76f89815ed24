#!/usr/bin/env bats
# The options' grammar is checked where the job is submitted, at once, with a caret under the mistake.
load helper

# The submit side refuses: nothing is queued.
expect_refused() {
  run "$@"
  expect_failure
  expect_output_like '\^'
  run -0 root squeue --noheader
  expect_equal "$output" ""
}

expect_refused_line() {
  run "$@"
  expect_failure
  expect_output_like "berth: .*container-"
  run -0 root squeue --noheader
  expect_equal "$output" ""
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

@test "an option repeated with another value is an error" {
  run alice srun --container-image="$image" --container-workdir=/tmp --container-workdir=/srv true
  expect_failure
  expect_output_like "container-workdir"
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
  for option in name=/tmp/foo name=:attach name=dev:attach "name=$(printf 'a%.0s' {1..300})" save=/tmp/ save=/ save=./; do
    expect_refused_line alice srun --container-image="$image" --container-"$option" true
  done
  expect_refused_line alice sbatch --container-image="$image" --container-name=a/b --wrap true
  expect_refused_line alice srun --container-image="$image" --container-entrypoint --no-container-entrypoint true
  expect_refused_line alice srun --container-image="$image" --container-name=a --container-name=b true
}

@test "srun --help names the options" {
  run -0 alice srun --help
  for option in image mounts workdir env name save unshare entrypoint entrypoint-log mount-home remap-root writable readonly; do
    expect_output_like "--(\[no-\])?container-$option"
  done
}
