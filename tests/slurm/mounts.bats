#!/usr/bin/env bats
# --container-mounts and the home folder.
load helper

setup() {
  in_home 'rm -rf in "a b"; mkdir in "a b"; echo content > in/x; echo spaced > "a b/x"'
}

@test "a read-only bind is readable and refuses writing" {
  run -0 contained --container-mounts=/home/alice/in:/data:ro cat /data/x
  expect_equal "$output" content
  run contained --container-mounts=/home/alice/in:/data:ro sh -c 'echo y > /data/y'
  expect_failure
  expect_output_like "Read-only file system"
  run ! alice test -e in/y
}

@test "a bind is writable by default, and the file belongs to the user outside" {
  run -0 contained --container-mounts=/home/alice/in:/data sh -c 'echo y > /data/y'
  run -0 alice stat -c '%U %s' in/y
  expect_equal "$output" "alice 2"
}

@test "the target defaults to the source" {
  run -0 contained --container-mounts=/home/alice/in cat /home/alice/in/x
  expect_equal "$output" content
}

@test "a relative source starts at the working directory of the job" {
  run -0 in_home "srun --container-image=$image --container-mounts=./in:/data cat /data/x"
  expect_equal "$output" content
}

@test "a file can be mounted, also where the image has none" {
  run -0 contained --container-mounts=/home/alice/in/x:/etc/os-release,/home/alice/in/x:/new/place/file cat /etc/os-release /new/place/file
  expect_equal "$output" $'content\ncontent'
}

@test "several mounts, a tmpfs among them" {
  run -0 contained --container-mounts=/home/alice/in:/data:ro,tmpfs:/scratch sh -c 'cat /data/x; echo t > /scratch/t; stat -f -c %T /scratch'
  expect_equal "$output" $'content\ntmpfs'
}

@test "a source with a space is taken literally" {
  run -0 contained "--container-mounts=/home/alice/a b:/data" cat /data/x
  expect_equal "$output" spaced
}

@test "a missing source is one clear line, the step fails and the nodes stay up" {
  run contained --container-mounts=/home/alice/missing:/data true
  expect_failure
  expect_one_error_line
  expect_output_like "/home/alice/missing"
  expect_nodes_up
  run -0 contained true
}

@test "a source that the user may not read stays unreadable" {
  root bash -c 'mkdir -p /var/lib/secret && echo s > /var/lib/secret/s && chmod 700 /var/lib/secret'
  run contained --container-mounts=/var/lib/secret:/data cat /data/s
  expect_failure
  expect_nodes_up
}

@test "a mount over the root is refused" {
  run contained --container-mounts=/home/alice/in:/ true
  expect_failure
  expect_nodes_up
}

@test "a target through a symlink of the image stays inside the container" {
  run -0 contained --container-mounts=/home/alice/in/x:/opt/links/absolute cat /opt/links/first
  expect_equal "$output" content
  run ! root test -e /opt/links
}

@test "--container-mount-home brings the home, --no-container-mount-home does not" {
  run -0 contained --container-mount-home sh -c 'cat $HOME/in/x; cat /home/alice/in/x'
  expect_equal "$output" $'content\ncontent'
  run ! contained --no-container-mount-home test -e /home/alice/in/x
}

@test "without --container-image the mounts are ignored aloud" {
  run -0 alice srun --container-mounts=/home/alice/in:/data true
  expect_output_like "ignor"
}
