#!/usr/bin/env bats
# Which command is meant: the container's, by its own PATH.
load helper

@test "a command that only the image has runs" {
  run -0 contained only-in-image
  expect_equal "$output" "only in the image"
  run ! alice srun only-in-image
}

@test "a command that exists nowhere exits 127 and the message tells the container's view" {
  run -127 contained no-such-command
  expect_output_like "no-such-command"
  expect_output_like "(container|image)"
}

@test "a command that only the host has is not found" {
  run -127 contained skopeo --version
}

@test "a file that is not executable exits 126" {
  run -126 contained /etc/os-release
}

@test "a command is found by the image's PATH, not by the job's" {
  run -0 in_home "srun=\$(command -v srun); PATH=/usr/bin:/bin \$srun -w n1 --container-image=$image only-in-image"
  expect_equal "$output" "only in the image"
}

@test "a command with a slash is taken in the container's working directory" {
  run -0 contained --container-workdir=/usr/local/bin ./only-in-image
  expect_equal "$output" "only in the image"
}
