#!/usr/bin/env bats
# bats file_tags=cgroup
# What runs for a step is in a cgroup of the step's and ends with it, whatever state it is in; what serves a named
# container is in one of the job's. Where Slurm has no cgroups there is none, and nothing is said.
load helper

setup() {
  cancel_everything
  alice srun -w n1 berth rm --force leaf 2> /dev/null || true
  remember_job_groups
  in_home 'rm -f started second alone go hold'
}

teardown() {
  root pkill -KILL -x berth-stray || true
  cancel_everything
  root rm -f /dev/held
  root rm -rf /etc/berth/hooks.d
}

constrained() { grep -q '^[0-9]* 1 ' "$state/variant"; }

# A step that runs until it is ended: start_step OPTIONS...
start_step() {
  alice srun -w n1 --container-image="$image" --container-mounts=/home/alice "$@" sh -c \
    'touch /home/alice/started; sleep 600' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
}

# Version 2 of cgroups alone.
unified() { root test -e /sys/fs/cgroup/cgroup.controllers; }

# The cgroup of a process of the box, as the box sees it; with version 1 that of the freezer.
group_of() {
  local line='[0-9]*:freezer:'
  if unified; then line=0::; fi
  root sed -n "s/^$line//p" "/proc/$1/cgroup"
}

step_ended() { ! kill -0 "$step" 2> /dev/null; }

# What the box's root remembers of jobs.
remembered_jobs() { root bash -c 'ls /run/berth.jobs 2> /dev/null || true'; }

nothing_remembered() { [[ -z $(remembered_jobs) ]]; }

@test "the helper of a step is in a leaf below its job, and both go with the step" {
  start_step
  helper=$(berth_processes)
  if constrained; then
    leaf='/uid_2001/job_[0-9]+/berth_0$'
    if unified; then leaf='/[^/]*scope/[^/]*/step_0/berth$'; fi
    [[ $(group_of "$helper") =~ $leaf ]] || fail "$(group_of "$helper")"
    [[ $(remembered_jobs) == n1.+([0-9]) ]] || fail "$(remembered_jobs)"
  else
    [[ $(group_of "$helper") != *berth_* ]] || fail "$(group_of "$helper")"
    nothing_remembered
  fi
  root scancel -u alice
  within 10 step_ended
  expect_no_leftovers
  expect_nodes_up
  nothing_remembered
  expect_no_new_job_groups
  ! grep berth "$BATS_TEST_TMPDIR/out" || fail "$(< "$BATS_TEST_TMPDIR/out")"
}

@test "the helper of a named container is in a leaf of the job, and the job leaves nothing" {
  start_step --container-name=leaf
  local leaf='/job_[0-9]+/berth$'
  if unified; then leaf='/[^/]*scope/[^/]*/berth_0$'; fi
  for helper in $(berth_processes); do
    ! constrained || [[ $(group_of "$helper") =~ $leaf ]] || fail "$(group_of "$helper")"
  done
  root scancel -u alice
  within 10 step_ended
  expect_no_leftovers
  expect_nodes_up
  wait_until 10 nothing_remembered
  expect_no_new_job_groups
}

@test "in one job a named container outlives its first step, and is there for the next" {
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun --container-name=leaf --container-image=$image --container-mounts=/home/alice sh -c \
      \"touch /home/alice/started; until test -e /home/alice/second; do sleep 0.1; done\" &
    until test -e started; do sleep 0.1; done
    srun --overlap --container-name=leaf sh -c \
      \"touch /home/alice/second; until test -e /home/alice/alone; do sleep 0.1; done; only-in-image\" &
    wait %1; sleep 1; touch alone; wait %2; rm -f second alone'"
  expect_equal "$output" "only in the image"
  expect_no_leftovers
  expect_no_new_job_groups
}

@test "what a hook left running, in a session of its own, ends with the step" {
  root bash -c 'mkdir -p /etc/berth/hooks.d; cp /bin/sleep /usr/local/bin/berth-stray
    printf "#!/bin/bash\nsetsid /usr/local/bin/berth-stray 600 < /dev/null > /dev/null 2>&1 &\necho {}\n" \
      > /etc/berth/hooks.d/a.sh
    chmod 755 /etc/berth/hooks.d/a.sh'
  # In a job that goes on.
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun --container-image=$image true
    for _ in \$(seq 40); do pgrep -x berth-stray > /dev/null || break; sleep 0.1; done; pgrep -cx berth-stray || true'"
  # Without cgroups nobody knows whose it is.
  expect_equal "$output" "$(constrained && echo 0 || echo 1)"
  expect_nodes_up
}

@test "the helper of a named container that is stopped, and nobody reads from, ends with the job" {
  start_step --container-name=leaf
  mapfile -t servers < <(berth_processes)
  signal_all STOP "${servers[@]}"
  root scancel -u alice
  within 15 step_ended
  if constrained; then
    wait_until 10 no_jobs
    expect_no_leftovers
    expect_no_new_job_groups
  else
    # Five seconds after the tasks got SIGKILL a helper that keeps them is killed: one of these may be gone.
    for server in "${servers[@]}"; do root kill -CONT "$server" || true; done
    expect_no_leftovers
  fi
  expect_nodes_up
}

@test "kill -9 of slurmstepd: the leaf goes with the job" {
  start_step
  kill_9 "$(stepd_pid)"
  cancel_everything
  wait_until 30 "$box" status
  expect_no_leftovers
  nothing_remembered
}

# Who has a device file of the test's open.
holders() { find "$(box_proc)"/[0-9]*/fd -lname '*/held' 2> /dev/null | sed 's|.*/\([0-9]*\)/fd/.*|\1|' | sort -u; }
no_holder() { [[ -z $(holders) ]]; }
some_holder() { ! no_holder; }
no_group_of() { [[ $(job_groups) != */job_$1* ]]; }

@test "hostile: a process of a named container that holds a device of its job ends with it, and another job reads on" {
  # A device that anybody can open where the file's mode lets him: /dev/kmsg, to write.
  root rm -f /dev/held
  root mknod -m 666 /dev/held c 1 11
  # The image of the entrypoint has little more than a shell: its processes wait for somebody to write.
  in_home 'rm -f go hold second; mkfifo go hold; cat > entry.sh; chmod 755 entry.sh' <<'END'
#!/bin/sh
(exec 3> /dev/held; read -r line < /home/alice/hold) > /dev/null 2>&1 < /dev/null &
exec "$@"
END
  alice srun -w n1 -J first --container-image="$registry/debian:entry" --container-entrypoint --container-name=leaf \
    --container-mounts=/home/alice,/home/alice/entry.sh:/entry.sh,/dev/held \
    sh -c ': > /home/alice/started; read -r line < /home/alice/hold' > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  wait_until 20 alice test -e started
  wait_until 20 some_holder
  job=$(alice squeue --noheader -n first -o %A)
  alice srun -w n1 --container-name=leaf sh -c ': > /home/alice/second; read -r line < /home/alice/go
    ls -R /usr > /dev/null && echo "$line"' > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 alice test -e second
  root scancel "$job"
  if constrained; then
    wait_until 10 no_holder
    wait_until 10 no_group_of "$job"
  else
    # Without cgroups nobody knows whose it is.
    wait_until 20 eval '[[ $(alice squeue --noheader -o %A) != *"$job"* ]]'
  fi
  # The container's server has gone along.
  kill -0 "$second"
  in_home 'echo reads on > go'
  wait "$second" || fail "$(< "$BATS_TEST_TMPDIR/second")"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" "reads on"
  expect_no_leftovers
  expect_nodes_up
}
