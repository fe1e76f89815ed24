#!/usr/bin/env bats
# --container-unshare: namespaces of a container's own, shared by its tasks.
load helper

setup_file() {
  load helper
  host=$(alice sh -c 'for name in net ipc uts; do readlink /proc/self/ns/$name; done | sort')
  export host
}

teardown() {
  restore_site
}

spaces='for name in net ipc uts; do readlink /proc/self/ns/$name; done'

@test "without it net, ipc and uts are the node's" {
  run -0 contained sh -c 'readlink /proc/self/ns/net; readlink /proc/self/ns/ipc'
  expect_equal "$(sort <<< "$output")" "$(grep -v uts <<< "$host")"
}

@test "net, ipc and uts: three of the container's own, the same ones for all tasks" {
  run -0 contained -n4 --container-unshare=net,ipc,uts sh -c "$spaces"
  expect_equal "$(sort -u <<< "$output" | wc -l)" 3
  expect_equal "$(sort -u <<< "$output" | grep -cFx "$host" || true)" 0
}

@test "one of them alone, in any order, by the variable too" {
  run -0 contained --container-unshare=uts,net sh -c 'readlink /proc/self/ns/ipc'
  expect_equal "$output" "$(grep ipc <<< "$host")"
  run -0 in_home \
    "PYXIS_CONTAINER_UNSHARE=ipc srun -w n1 --container-image=$image \
      sh -c 'readlink /proc/self/ns/ipc; readlink /proc/self/ns/net'"
  expect_equal "$(grep -c "$(grep ipc <<< "$host")" <<< "$output" || true)" 0
  expect_equal "$(grep net <<< "$output")" "$(grep net <<< "$host")"
}

@test "net: loopback is up, and nothing else is to be reached" {
  run -0 contained --container-unshare=net bash -c '
    (exec < /dev/tcp/127.0.0.1/65535) 2>&1 | grep -o "Connection refused" | sort -u
    (exec < /dev/tcp/8.8.8.8/53) 2>&1 | grep -o "Network is unreachable" | sort -u
    cut -d: -f1 /proc/net/dev | tail -n +3 | xargs'
  expect_equal "$output" $'Connection refused\nNetwork is unreachable\nlo'
}

@test "ipc: /dev/shm is private, and what was shared is gone with the container" {
  run -0 in_home "before=\$(cat /proc/sysvipc/shm | wc -l); stat -c %d /dev/shm
    srun -w n1 --container-image=$image --container-unshare=ipc \
      sh -c 'stat -c %d /dev/shm; touch /dev/shm/berth-unshare'
    test ! -e /dev/shm/berth-unshare && test \$(cat /proc/sysvipc/shm | wc -l) = \$before"
  expect_equal "$(sort -u <<< "$output" | wc -l)" 2
}

@test "uts: the name of the node stays as it is" {
  run -0 contained --container-unshare=uts hostname
  expect_equal "$output" n1
}

@test "defaults.unshare gives each step its own shared memory, which its tasks share" {
  with_site_lines '[defaults]' 'unshare = "ipc"'
  run -0 contained -n2 sh -c \
    'readlink /proc/self/ns/ipc; echo "$SLURM_PROCID" > "/dev/shm/$SLURM_PROCID"
      until cat /dev/shm/0 /dev/shm/1 > /dev/null 2>&1; do sleep 0.1; done; ls /dev/shm | xargs'
  expect_equal "$(sort -u <<< "$output" | grep -c '^ipc:')" 1
  [[ $output != *"$(grep ipc <<< "$host")"* ]] || fail "$output"
  expect_equal "$(grep -cx '0 1' <<< "$output")" 2
  # With a user's own wish beside it, and taken away by its variable.
  run -0 contained --container-unshare=uts sh -c "$spaces"
  expect_equal "$(grep -cFx "$host" <<< "$output")" 1
  run -0 in_home "BERTH_DEFAULTS_UNSHARE= srun -w n1 --container-image=$image readlink /proc/self/ns/ipc"
  expect_equal "$output" "$(grep ipc <<< "$host")"
  with_site_lines '[policy]' 'locked = "defaults.unshare"'
  run in_home "BERTH_DEFAULTS_UNSHARE= srun -w n1 --container-image=$image true"
  expect_failure
  expect_output_like 'BERTH_DEFAULTS_UNSHARE: defaults.unshare is locked'
}

@test "defaults.unshare with pid holds for berth run; a step leaves it out and says so" {
  with_site_lines '[defaults]' 'unshare = "ipc, pid"'
  node=$(alice readlink /proc/self/ns/pid)
  run -0 contained -n2 readlink /proc/self/ns/pid
  expect_equal "$(grep -c '^berth: n1: defaults.unshare: pid is for berth run only' <<< "$output")" 1
  expect_equal "$(grep '^pid:' <<< "$output" | sort -u)" "$node"
}

# bats test_tags=cgroup
@test "row 25: defaults.unshare with cgroup: each task's cgroup is the root of those that it sees" {
  with_site_lines '[defaults]' 'unshare = "cgroup"'
  # shellcheck disable=SC2016
  script='cut -d: -f3 /proc/self/cgroup | sort -u
    for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs /sys/fs/cgroup/freezer/cgroup.procs; do
      test ! -e "$procs" || grep -qx $$ "$procs" || echo "$$ is not in $procs"
      test ! -w "$procs" || echo "$procs can be written to"
    done'
  run -0 contained -n2 sh -c "$script"
  expect_equal "$output" $'/\n/'
  # In a container that runs already, too.
  run -0 contained --container-name=own-cgroup sh -c "$script"
  expect_equal "$output" /
  alice srun -w n1 berth rm --force own-cgroup
  # Each stays until both have read: the number of a namespace that has gone is soon that of another.
  # shellcheck disable=SC2016
  run -0 contained -n2 sh -c 'readlink /proc/self/ns/cgroup; : > "/tmp/read.$SLURM_PROCID"
    until [ -e /tmp/read.0 ] && [ -e /tmp/read.1 ]; do sleep 0.1; done'
  expect_equal "$(sort -u <<< "$output" | wc -l)" 2
}

@test "unknown and empty namespaces are refused at submission with a caret" {
  for value in foo net,foo net, ,; do
    run alice srun --container-image="$image" --container-unshare="$value" true
    expect_failure
    expect_output_like "--container-unshare: unknown namespace '.*\^"
  done
  run alice srun --container-image="$image" --container-unshare= true
  expect_failure
  run in_home "PYXIS_CONTAINER_UNSHARE=foo srun --container-image=$image true"
  expect_failure
  expect_output_like "PYXIS_CONTAINER_UNSHARE.*unknown namespace"
}
