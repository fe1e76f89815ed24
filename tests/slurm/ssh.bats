#!/usr/bin/env bats
# A server of ssh that an ordinary user runs in a container.
load helper

teardown() {
  cancel_everything
}

# sshd gives a terminal to the group tty, whose number is no one's in the container.
@test "a user reaches their container by ssh, with a terminal, and gets its files and environment" {
  cancel_everything
  in_home 'umask 77; mkdir -p .ssh; rm -f .ssh/id* host*; ssh-keygen -q -t ed25519 -N "" -f .ssh/id;
    cp .ssh/id.pub .ssh/authorized_keys;
      ssh-keygen -q -t ed25519 -N "" -f host'
  port=$((${BERTH_BOX_PORT:-16817} + 90))
  alice srun -w n1 --container-image="$registry/debian:mpi" --container-mount-home --container-writable \
    /usr/sbin/sshd -D -e -p "$port" -f /dev/null -h /home/alice/host \
    -o UsePAM=no -o PidFile=none \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 grep -q 'Server listening' "$BATS_TEST_TMPDIR/out"
  ssh="ssh -F none -p $port -i .ssh/id -o StrictHostKeyChecking=no \
    -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR localhost"
  run -0 in_home "$ssh -T 'sums-mpich; grep PRETTY /etc/os-release; id -un'"
  expect_output_like "1 ranks on 1 nodes.*Debian GNU/Linux 12.*alice"
  run -0 in_home "$ssh -tt tty < /dev/null"
  expect_output_like "/dev/pts/[0-9]"
  # The server says what went wrong, and the session that it ends says nothing.
  ! grep -i 'chown' "$BATS_TEST_TMPDIR/out" || fail "$(< "$BATS_TEST_TMPDIR/out")"
}
