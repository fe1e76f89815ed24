#!/usr/bin/env bats
# --container-name: a container's files from step to step and job to job, its modes, its scope, and its end.
load helper

setup() {
  remove_all
}

teardown() {
  cancel_everything
  remove_all
}

remove_all() {
  alice srun -w n1 bash -c \
    'for name in $(berth ps --json | jq -r ".containers[].name"); do berth rm --force "$name"; done' || true
}

named() { alice srun -w n1 "--container-name=$1" "${@:2}"; }

@test "what a named container wrote is there for the next job, with or without the image; an unnamed one leaves nothing" {
  run -0 named keep --container-image="$image" --container-remap-root sh -c 'echo kept > /opt/kept; mkdir /opt/dir'
  expect_equal "$output" ""
  run -0 named keep cat /opt/kept
  expect_equal "$output" kept
  run -0 named keep --container-image="$image" -n2 sh -c 'cat /opt/kept; id -u'
  expect_equal "$(sort -u <<< "$output")" "$(printf '%s\n' "$(alice id -u)" kept)"
  run -0 contained sh -c 'test ! -e /opt/kept'
  run -0 named other --container-image="$image" sh -c 'test ! -e /opt/kept'
}

@test "modes: create refuses an old one, exec one that does not run, a name without an image one that is not there" {
  run named keep true
  expect_failure
  expect_one_error_line
  expect_output_like "container keep: there is none of that name on this node, n1, and each node has its own; "
  expect_output_like "or -w with the node that has it: srun -w NODE berth ps"
  run -0 named keep:create --container-image="$image" touch /opt/kept
  run named keep:create --container-image="$image" true
  expect_failure
  expect_output_like "exists already"
  run named keep:exec true
  expect_failure
  expect_output_like "does not run"
  run -0 named keep:no_exec test -e /opt/kept
}

@test "removed by hand it begins anew" {
  run -0 named keep --container-image="$image" touch /opt/kept
  run -0 alice srun -w n1 berth rm keep
  run named keep test -e /opt/kept
  expect_failure
  run -0 named keep --container-image="$image" test ! -e /opt/kept
}

@test "by variable, and the flag wins" {
  run -0 in_home "PYXIS_CONTAINER_NAME=keep srun -w n1 --container-image=$image touch /opt/kept"
  run -0 in_home "BERTH_CONTAINER_NAME=keep srun -w n1 test -e /opt/kept"
  run -0 in_home \
    "PYXIS_CONTAINER_NAME=keep srun -w n1 --container-name=flag --container-image=$image test ! -e /opt/kept"
}

@test "every node has its own; other users have theirs" {
  run -0 alice srun -N2 --container-name=keep --container-image="$image" sh -c 'echo $SLURMD_NODENAME > /opt/node'
  run -0 alice srun -N2 --container-name=keep sh -c 'test "$(cat /opt/node)" = "$SLURMD_NODENAME"'
  run "$box" run -u bob -- srun -w n1 --container-name=keep true
  expect_failure
  alice srun -w n2 berth rm keep
}

@test "read-only, mounts and roots are each step's own choice" {
  run -0 named keep --container-image="$image" --container-remap-root --container-mounts=/home:/mnt/home sh -c \
    'touch /opt/kept; test -d /mnt/home/alice'
  run named keep --container-readonly sh -c 'id -u; test ! -e /mnt/home/alice; touch /opt/more'
  expect_failure
  expect_output_like "Read-only file system"
  # A line of its own; that of srun's about the exit code can come before it.
  expect_output_like $'(^|\n)'"$(alice id -u)"$'\n'
  run -0 named keep --container-mounts=/home:/opt/home test -d /opt/home/alice
}

@test "sbatch: the script runs in the container, and steps of other jobs find what it wrote" {
  run -0 in_home \
    "printf '#!/bin/sh\nonly-in-image\necho script > /opt/script\n' > named.sh;
      $sbatch_wait -w n1 -o named.out --container-name=keep \
      --container-image=$image named.sh; cat named.out; rm named.sh named.out"
  expect_output_like "only in the image"
  run -0 named keep cat /opt/script
  expect_equal "$output" script
}

# bats test_tags=cgroup
@test "scope job: the steps of a job share it, another job does not, and it goes with the job" {
  run -0 in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job salloc -w n1 bash -c '
    srun --container-name=mine --container-image=$image touch /opt/kept
    srun --container-name=mine test -e /opt/kept && echo shared'"
  expect_output_like shared
  wait_until 10 no_containers_of_jobs
  run in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job srun -w n1 --container-name=mine true"
  expect_failure
}

# bats test_tags=cgroup
@test "hostile row 70: the end of a job removes its own container, and none of that name of a job that runs" {
  in_home 'rm -f first second go'
  start='BERTH_DEFAULTS_CONTAINER_SCOPE=job srun -w n1 --container-name=mine --container-mounts=/home/alice'
  in_home "$start -J first --container-image=$image sh -c \
    'echo first > /opt/kept; touch ~/first; until test -e ~/second; do sleep 0.1; done'" \
    > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  first=$!
  wait_until 20 alice test -e first
  in_home "$start -J second --container-image=$image sh -c \
    'cat /opt/kept; echo second > /opt/kept; touch ~/second; until test -e ~/go; do sleep 0.1; done; cat /opt/kept'" \
    > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait "$first"
  job=$(alice squeue --noheader -n second -o %A)
  wait_until 20 one_container_of_jobs
  expect_equal "$(root bash -c "cat $state/nodes/n1/store/2001.containers/job${job}_mine/upper/opt/kept")" second
  alice touch go
  wait "$second"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" \
    $'cat: /opt/kept: No such file or directory\nsecond'
  wait_until 10 no_containers_of_jobs
}

one_container_of_jobs() {
  (( $(root bash -c "ls -d $state/nodes/n1/store/2001.containers/job*" | wc -l) == 1 ))
}

@test "berth ps, exec, save and rm know the containers of a job, with the digest of their image" {
  digest=$(manifest_digest 12)
  run -0 in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job salloc -Q -w n1 bash -c '
    srun --container-name=mine --container-image=$image sh -c \"echo kept > /opt/kept\"
    srun berth ps --json | jq -r \".containers[] | [.name, .job == \$SLURM_JOB_ID, .digest] | @tsv\"
    srun berth ps | grep -c \"^mine *\$SLURM_JOB_ID .*debian:12\"
    srun berth exec --job \$SLURM_JOB_ID mine cat /opt/kept
    srun berth save --job \$SLURM_JOB_ID --force -o saved.sqsh mine
    srun berth rm mine 2>&1 | grep -o \"there is none of that name\"
    srun berth rm --job \$SLURM_JOB_ID mine
    srun berth ps --json | jq -c .containers; ls saved.sqsh; rm saved.sqsh'"
  expect_equal "$output" "mine"$'\t'"true"$'\t'"$digest"$'\n1\nkept\nthere is none of that name\n[]\nsaved.sqsh'
}

no_containers_of_jobs() {
  root bash -c "! ls -d $state/nodes/n1/store/*.containers/job* &&
    ! ls /proc/\$(cat /run/slurmd.n1.pid)/root/run/berth/*/steps/job-*"
}

@test "scope job: what an epilog could not remove goes with a later step of the user" {
  root bash -c \
    "mkdir -p $state/nodes/n1/store/2001.containers/job1_left/upper &&
      touch $state/nodes/n1/store/2001.containers/job1_left/state && \
      chown -R 2001:2001 $state/nodes/n1/store/2001.containers"
  run -0 named keep --container-image="$image" true
  wait_until 10 no_containers_of_jobs
}

# bats test_tags=cgroup
@test "kill -9 of slurmstepd, of the container's helper, and scancel: the files stay, nothing else does" {
  for how in stepd helper scancel; do
    in_home 'rm -f started'
    in_home "srun -w n1 --container-name=keep --container-image=$image --container-mounts=/home/alice sh -c \
        'echo $how >> /opt/kept; touch /home/alice/started; sleep 600'" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    wait_until 20 alice test -e started
    case $how in
      stepd) kill_9 "$(stepd_pid)" ;;
      helper)
        mapfile -t helpers < <(berth_processes)
        kill_9 "${helpers[@]}"
        ;;
      scancel) root scancel -u alice ;;
    esac
    leaves_may_stay=1 expect_no_leftovers
    cancel_everything
    wait "$!" || true
    wait_until 30 "$box" status
    expect_no_leftovers
  done
  run -0 named keep cat /opt/kept
  expect_equal "$output" $'stepd\nhelper\nscancel'
}

# Who serves a container's files, of Berth's processes.
servers() {
  local pid
  for pid in $(berth_processes); do
    [[ -z $(find "$(box_proc)/$pid/task"/*/fd -lname '*/fuse' 2> /dev/null) ]] || echo "$pid"
  done
}

step_over() { ! kill -0 "$1" 2> /dev/null; }

# bats test_tags=cgroup
@test "kill -9 of the container's server: every step in it, of every job, fails with one line" {
  # No file of the container is read again when it has gone: only Berth can end this.
  # shellcheck disable=SC2016
  busy='touch "$1"; while :; do cat /etc/os-release; sleep 0.2; done > /dev/null 2>&1'
  in_home 'rm -f one two three'
  steps=() how=("--container-image=$image" --container-mounts=/home/alice)
  for name in one two three; do
    named keep "${how[@]}" sh -c "$busy" sh "/home/alice/$name" > "$BATS_TEST_TMPDIR/$name" 2>&1 3>&- &
    steps+=($!) how=()
    wait_until 20 alice test -e "$name"
  done
  mapfile -t server < <(servers)
  expect_equal "${#server[@]}" 1
  kill_9 "${server[@]}"
  for step in "${steps[@]}"; do wait_until 5 step_over "$step"; done
  for name in one two three; do
    status=0
    wait "${steps[0]}" || status=$?
    steps=("${steps[@]:1}")
    output=$(< "$BATS_TEST_TMPDIR/$name")
    expect_status 137
    expect_one_error_line
    expect_output_like "berth: n1: the container has ended: it was removed by force, or its helper was killed"
  done
  expect_no_leftovers
  expect_nodes_up
}

@test "row 4: names as wide as Pyxis': a+b, a@b, a leading dot, a blank, 200 bytes" {
  long=$(printf 'n%.0s' {1..200})
  for name in 'a+b' 'user@model=7' .hidden 'with blank' "$long"; do
    run -0 alice srun -w n1 --container-image="$image" --container-name="$name" touch /opt/kept
    run -0 alice srun -w n1 --container-name="$name:no_exec" test -e /opt/kept
    run -0 alice srun -w n1 berth ps
    [[ $output == *"$name"* ]] || fail "$name is not in:" "$output"
    run -0 alice srun -w n1 berth rm "$name"
  done
  run alice srun -w n1 --container-image="$image" --container-name="${long}n" true
  expect_failure
  expect_output_like "use 1 to 200 bytes of printable characters"
}
