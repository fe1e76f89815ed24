#!/usr/bin/env bats
# bats file_tags=cgroup
# What runs for a step is in a cgroup of the step's and ends with it, whatever state it is in; what serves a named
# container is in one of the job's. Where Slurm has no cgroups there is none, and nothing is said.
load helper

setup() {
  cancel_everything
  alice srun -w n1 berth rm --force leaf 2> /dev/null || true
  remember_job_groups
  in_home 'rm -f started second alone'
}

teardown() {
  root pkill -KILL -x berth-stray || true
  cancel_everything
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
  root kill -STOP "${servers[@]}"
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
