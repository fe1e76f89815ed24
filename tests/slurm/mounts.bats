#!/usr/bin/env bats
# --container-mounts.
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
  run -0 contained --container-mounts=/home/alice/in/x:/etc/os-release,/home/alice/in/x:/new/place/file cat \
    /etc/os-release /new/place/file
  expect_equal "$output" $'content\ncontent'
}

@test "several mounts, a tmpfs among them" {
  run -0 contained --container-mounts=/home/alice/in:/data:ro,tmpfs:/scratch sh -c \
    'cat /data/x; echo t > /scratch/t; stat -f -c %T /scratch'
  expect_equal "$output" $'content\ntmpfs'
}

@test "a source with a space is taken literally" {
  run -0 contained "--container-mounts=/home/alice/a b:/data" cat /data/x
  expect_equal "$output" spaced
}

@test "a device file, and a target with a space" {
  run -0 contained "--container-mounts=/dev/null:/null,/home/alice/a b:/mnt/my data" sh -c \
    'test -c /null && cat "/mnt/my data/x"'
  expect_equal "$output" spaced
}

@test "a file that only root may read can be mounted and not read" {
  run contained --container-mounts=/etc/shadow:/shadow sh -c \
    'grep -q " /shadow " /proc/self/mountinfo && echo mounted && cat /shadow'
  expect_failure
  expect_output_like $'mounted\n.*Permission denied'
}

@test "unbindable with ro, and the propagation is as asked for" {
  run -0 contained --container-mounts=/home/alice/in:/data:unbindable+ro sh -c \
    'grep " /data " /proc/self/mountinfo; echo x > /data/x || echo refused'
  expect_output_like " ro,.* unbindable .*refused"
  run -0 contained --container-mounts=/home/alice/in:/data:shared grep " /data " /proc/self/mountinfo
  expect_output_like " shared:"
}

@test "a tmpfs with its size, mode and huge pages" {
  run -0 contained --container-mounts=tmpfs:/scratch:size=1M+mode=700+huge=within_size sh -c \
    'grep " /scratch " /proc/self/mountinfo; stat -c %a /scratch'
  expect_output_like "size=1024k,.*huge=within_size.*"$'\n'700
}

@test "a tmpfs takes nr_inodes files and no more" {
  run -0 contained --container-mounts=tmpfs:/scratch:nr_inodes=20 sh -c \
    'cd /scratch; for i in $(seq 40); do touch $i || break; done; ls | wc -l'
  # The root of the tmpfs is the twentieth.
  expect_output_like 'No space left on device.*'$'\n''19$'
}

@test "row 23: what is mounted on the node later appears below a mount, and not below a private one" {
  pid=$(root cat /run/slurmd.n1.pid)
  on_n1() { root nsenter --target "$pid" --mount -- "$@"; }
  in_home 'mkdir -p shared; rm -f ready'
  on_n1 bash -c 'cd /home/alice && mount -t tmpfs box-test shared && mount --make-shared shared && mkdir shared/later'
  contained --container-mounts=/home/alice/shared:/plain,/home/alice/shared:/private:private,/home/alice:/home/alice \
    sh -c 'touch /home/alice/ready; until [ -e /plain/later/seen ]; do sleep 0.1; done
      ls /private/later | wc -l; grep " /plain " /proc/self/mountinfo' > "$BATS_TEST_TMPDIR/out" 3>&- &
  step=$!
  wait_until 20 test -e "$state/home/alice/ready"
  on_n1 bash -c 'cd /home/alice/shared && mount -t tmpfs box-test later && touch later/seen'
  wait "$step" || step=failed
  on_n1 umount -R /home/alice/shared
  in_home 'rmdir shared; rm ready'
  [[ $step != failed ]]
  output=$(cat "$BATS_TEST_TMPDIR/out")
  expect_output_like '^0'$'\n''.* master:'
}

@test "what the kernel does not take of a tmpfs is one line that names it" {
  run contained --container-mounts=tmpfs:/scratch:size=much true
  expect_failure
  expect_one_error_line
  expect_output_like "/scratch.*size=much"
}

@test "x-create=dir and x-create=file say what is made, and nofail leaves a missing source out" {
  mounts=/home/alice/in:/made:x-create=dir,/home/alice/in/x:/new/file:x-create=file,/not/there:/missing:nofail
  run -0 contained --container-mounts="$mounts" sh -c \
    'cat /made/x /new/file; test ! -e /missing'
  expect_equal "$output" $'content\ncontent'
}

@test "a relative target starts at the container's root, and one that leads out of it is refused" {
  run -0 contained --container-mounts=/home/alice/in:./data cat /data/x
  expect_equal "$output" content
  run contained --container-mounts=/home/alice/in:../home true
  expect_failure
  expect_output_like "[Cc]ross-device link"
}

@test "umount takes a mount of berth's or of the option's away" {
  run -0 contained --container-mount-home --container-remap-root --container-mounts=umount:/root sh -c \
    '! grep " /root " /proc/self/mountinfo'
  run -0 contained --container-mounts=/home/alice/in:/data,umount:/data sh -c 'test -z "$(ls /data)"'
  run contained --container-mounts=umount:/srv true
  expect_failure
  expect_output_like "/srv.*nothing is mounted there"
}

@test "a missing source among others names the missing one" {
  run contained --container-mounts=/home/alice/in:/data,/nonexistent/path:/mnt true
  expect_failure
  expect_one_error_line
  expect_output_like "/nonexistent/path.*source path does not exist"
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

@test "without --container-image the mounts are ignored aloud" {
  run -0 alice srun --container-mounts=/home/alice/in:/data true
  expect_output_like "ignor"
}
