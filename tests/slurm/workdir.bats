#!/usr/bin/env bats
# The working directory inside: the image's, or that of --container-workdir.
load helper

@test "the working directory is the image's" {
  run -0 contained pwd
  expect_equal "$output" /srv
  # Also for programs that believe PWD, which a shell corrects.
  run -0 contained printenv PWD
  expect_equal "$output" /srv
}

@test "--container-workdir changes it" {
  run -0 contained --container-workdir=/opt/links pwd
  expect_equal "$output" /opt/links
  run -0 contained --container-workdir=/opt/links printenv PWD
  expect_equal "$output" /opt/links
  run -0 in_home "srun -w n1 --container-image=$image --container-workdir=/opt/links --container-env=PWD printenv PWD"
  expect_equal "$output" /home/alice
  for _ in made joined; do
    run -0 contained --container-name=here --container-workdir=/opt/links printenv PWD
    expect_equal "$output" /opt/links
  done
  run -0 alice srun -w n1 berth exec here -- printenv PWD
  expect_equal "$output" /srv
  run -0 alice srun -w n1 berth rm here
}

@test "hostile row 60: a missing working directory is one line that names it" {
  run -125 contained --container-workdir=/not/there true
  expect_output_like "/not/there: No such file or directory"
  expect_one_error_line
  expect_nodes_up
}

@test "a relative one starts at the container's root and cannot leave it" {
  run -0 contained --container-workdir=opt/links pwd
  expect_equal "$output" /opt/links
  run -0 contained --container-workdir=../../.. pwd
  expect_equal "$output" /
}

@test "one that a mount brings, and one that is a file" {
  run -0 contained --container-mounts=/home/alice:/data --container-workdir=/data stat -c %U .
  expect_equal "$output" alice
  run contained --container-workdir=/etc/os-release true
  expect_failure
  expect_output_like "/etc/os-release: it is not a directory"
}

@test "hostile row 63: one below /proc could lead out of the container and is refused" {
  for directory in /proc/self/cwd /proc/1/root /srv/../proc/self/fd/3; do
    run contained --container-workdir=$directory true
    expect_failure
    expect_output_like "below /proc"
  done
}
