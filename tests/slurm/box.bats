#!/usr/bin/env bats
# bats file_tags=cgroup
# The box itself: what the other tests rely on.
load helper

@test "run gives the command's exit code, streams and identity" {
  run alice sh -c 'exit 7'
  expect_status 7
  run -0 --separate-stderr alice sh -c 'cat; echo err >&2' <<< in
  expect_equal "$output" in
  expect_equal "$stderr" err
  run -0 alice id -Gn
  expect_equal "$output" "alice team"
  run -127 alice no-such-command
}

@test "the environment is a login's, built from scratch" {
  LEAK=1 run -0 alice env
  run ! grep LEAK <<< "$output"
  run -0 alice printenv HOME
  expect_equal "$output" /home/alice
}

@test "up again changes nothing" {
  before=$(cat "$state/init")
  # The variant in use: up with the same arguments.
  read -r nodes cgroup plugin slurm < "$state/variant"
  arguments=(--nodes "$nodes")
  (( ! cgroup )) || arguments+=(--cgroup)
  (( plugin )) || arguments+=(--no-plugin)
  BERTH_BOX_SLURM=$slurm run -0 "$box" up "${arguments[@]}"
  expect_equal "$(cat "$state/init")" "$before"
  expect_nodes_up
}

@test "the host's users, configuration and programs are untouched" {
  run ! getent passwd alice
  run ! test -e /etc/slurm/slurm.conf
  run ! test -e /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_berth.so
  run ! grep -q "$state" /proc/mounts
}

@test "the box has its own processes, System V IPC, /tmp and /dev/shm, and its commands take signals" {
  run -0 root ps -e -o pid=,args=
  expect_output_like '(^|'$'\n'') *1 .*init.sh'
  run ! grep -q bats <<< "$output"
  expect_equal "$(root bash -c 'for name in pid ipc mnt uts; do readlink /proc/self/ns/$name; done' | sort -u)" \
    "$(root bash -c 'for name in pid ipc mnt uts; do readlink /proc/1/ns/$name; done' | sort -u)"
  for folder in /tmp /var/tmp /dev/shm; do
    root touch "$folder/berth-of-the-box"
    [[ ! -e $folder/berth-of-the-box ]] || fail "$folder"
    root rm "$folder/berth-of-the-box"
  done
  "$box" run -u alice -- bash -c 'trap "echo terminated; exit 3" TERM; echo ready; while :; do sleep 0.1; done' \
    > "$BATS_TEST_TMPDIR/out" 3>&- &
  wait_until 10 grep -q ready "$BATS_TEST_TMPDIR/out"
  kill -TERM $!
  code=0
  wait $! || code=$?
  expect_equal "$code" 3
  grep -q terminated "$BATS_TEST_TMPDIR/out"
}

@test "a granted device opens and another does not, where the box constrains them" {
  run alice srun -w n1 --gres=gpu:h100:1 sh -c 'cat /dev/nvidia0; cat /dev/nvidia1'
  expect_output_like "nvidia0: No such device or address"
  if grep -q '^[0-9]* 1 ' "$state/variant"; then
    expect_output_like "nvidia1: Operation not permitted"
  else
    expect_output_like "nvidia1: No such device or address"
  fi
}

@test "each node has a munged of its own: a credential seen on one is no replay on the other" {
  run -0 alice srun -N1 -w n1 sh -c 'munge -n > credential; unmunge < credential > /dev/null'
  run -0 alice srun -N1 -w n2 sh -c 'unmunge < credential > /dev/null'
  # EMUNGE_CRED_REPLAYED.
  run alice srun -Q -N1 -w n1 unmunge -n -i credential
  expect_status 17
}

@test "restarted nodes stay within what down ends" {
  read -r nodes _ < "$state/variant"
  root env BERTH_BOX_DIR="$state" BERTH_BOX_PORT="${BERTH_BOX_PORT:-16817}" "$state/lib/nodes.sh" restart "$nodes" \
    > "$BATS_TEST_TMPDIR/log" 2>&1 3>&-
  wait_until 20 "$box" status
  pid=$(root cat /run/slurmd.n1.pid)
  # The machine's number of it is another.
  expect_equal "$(root readlink "/proc/$pid/ns/pid")" "$(root readlink /proc/1/ns/pid)"
  # Where there are cgroups of the box's own, it is in none of the machine's: with version 2 it is below that group,
  # where Slurm puts it.
  [[ -e $state/own-cgroups ]] || return 0
  run -0 root sed 's/^.*://' "/proc/$pid/cgroup"
  [[ $output != */..* ]] || fail "outside of the box's groups: $output"
  root test -e /sys/fs/cgroup/cgroup.controllers || expect_equal "$(sort -u <<< "$output")" /
}
