#!/usr/bin/env bats
# What programs of users meet that call what the system call filter is about.
load helper

setup_file() {
  load helper
  gcc -O1 -Wall -Wextra -static "$repo/tests/slurm/node_calls.c" -o "$state/home/alice/node-calls"
  gcc -m32 -O1 -Wall -Wextra -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie \
    "$repo/tests/slurm/socket_32.c" -o "$state/home/alice/socket-32"
}

teardown_file() {
  in_home 'rm -f node-calls socket-32'
}

# With a folder of the user's, whose files the step changes as on the node.
with_home() { contained --container-mounts=/home/alice:/home/alice "$@"; }

@test "as the user, chown and what uses it succeed for ids that the container does not have" {
  in_home 'rm -rf owners; mkdir owners; echo x > owners/file'
  run -0 with_home sh -ec 'cd /home/alice/owners
    chown 0:0 file; chown -R nobody:nogroup .; chgrp tty file; install -o root -g 33 file installed
    mkdir tree; echo y > tree/y; tar --owner=root:0 --group=tty:5 -cf tree.tar tree; rm -r tree
    tar --same-owner -xf tree.tar; cp -a /etc/passwd .
    stat -c %u:%g file installed tree/y | sort -u'
  expect_equal "$output" 2001:2001
  # What can be done is done, and has the kernel's errors.
  run with_home sh -c 'chown 2001:2001 /home/alice/owners/none'
  expect_failure
  expect_output_like 'No such file'
  in_home 'rm -rf owners'
}

@test "a site or a job has the kernel answer instead" {
  run in_home "BERTH_SECURITY_FAKE_CHOWN=false srun -w n1 --container-image='$image' chown 0:0 /tmp"
  expect_failure
  expect_output_like "chown: .*Invalid argument"
}

@test "a 32-bit program has sockets" {
  # On a kernel without 32-bit programs there is nothing that a container could change.
  run alice ./socket-32
  outside="$status:$output"
  run with_home /home/alice/socket-32
  if [[ $outside == 0:sockets ]]; then
    expect_status 0
    expect_equal "$output" sockets
  else
    expect_failure
  fi
}

@test "io_uring and userfaultfd are there as on the node, keyrings are not" {
  run -0 alice ./node-calls
  outside=$(grep -e '^io_uring: ' -e '^userfaultfd: ' <<< "$output")
  run -0 with_home /home/alice/node-calls
  expect_equal "$output" "$outside
userfaultfd of the kernel: Operation not permitted
keyctl: Operation not permitted"
  # One word of the job's switches keyrings on.
  run -0 in_home "BERTH_SECURITY_SECCOMP_ALLOW='keyctl add_key request_key' srun -w n1 --container-image='$image' \
    --container-mounts=/home/alice:/home/alice /home/alice/node-calls"
  expect_output_like 'keyctl: ok'
}
