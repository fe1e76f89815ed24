#!/usr/bin/env bats
# Writing to the image's files: into memory, gone with the step, or not at all.
load helper

@test "what a task writes to the root is gone with the step" {
  run -0 contained --container-writable sh -c 'echo x > /srv/new && cat /srv/new'
  expect_equal "$output" x
  run ! contained test -e /srv/new
}

@test "--container-readonly makes the root read-only" {
  run contained --container-readonly sh -c 'echo x > /srv/new'
  expect_failure
  expect_output_like "Read-only file system"
  run -0 contained --container-readonly cat /srv/hello
}

@test "writing is possible by default, and a file of the image can be changed, moved and removed" {
  run -0 contained sh -c \
    'echo more >> /srv/hello && mv /srv/hello /srv/moved && cat /srv/moved && rm -r /opt/links && test ! -e /opt/links'
  expect_equal "$output" $'hello from the image\nmore'
  run -0 contained cat /srv/hello /opt/links/first
  expect_equal "$output" $'hello from the image\ntwo names'
}

@test "with --container-readonly /tmp, /dev/shm and mounts can be written to all the same" {
  run -0 contained --container-readonly --container-mounts=/home/alice:/data sh -c \
    'echo x > /tmp/x && echo x > /dev/shm/berth-x && rm /dev/shm/berth-x &&
      echo x > /data/by-readonly && rm /data/by-readonly'
}

@test "the tasks of a step see what each other writes" {
  run -0 contained -n2 sh -c \
    'touch /srv/$SLURM_PROCID; until test -e /srv/0 && test -e /srv/1; do sleep 0.05; done; echo both'
  expect_equal "$output" $'both\nboth'
}
