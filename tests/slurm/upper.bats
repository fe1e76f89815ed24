#!/usr/bin/env bats
# bats file_tags=cgroup
# mount.upper: what a container without a name writes is on disk, and goes with the container however that ends. And
# what a site has for all containers.
load helper

setup_file() {
  root install -d -m 1777 "$state/upper"
  with_site_lines '[mount]' "upper = \"$state/upper\""
}

teardown_file() {
  restore_site
  root rm -rf "$state/upper"
}

setup() { cancel_everything; }

# What containers have on disk.
on_disk() { find "$state/upper" -mindepth 2 -maxdepth 2; }

nothing_on_disk() { [[ -z $(on_disk) ]]; }

# As n1 sees its folders and its name.
on_n1() {
  local pid
  pid=$(root cat /run/slurmd.n1.pid)
  root nsenter --target "$pid" --mount --uts -- "$@"
}

marks() { on_n1 find /run/berth -name 'upper-*'; }

# A step that has written a megabyte, and runs until it is ended: start_writing_step [OPTION...]
start_writing_step() {
  in_home 'rm -f started'
  contained "$@" --container-mounts=/home/alice sh -c 'mkdir /deep; head -c 1M /dev/zero > /deep/file
    touch /home/alice/started; sleep 600' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
  expect_equal "$(on_disk | wc -l)" 1
  [[ -s $(on_disk)/upper/deep/file ]] || fail "$(find "$state/upper")"
  [[ $(marks) == */upper-n1.* ]] || fail "$(marks)"
}

# Of these processes those that are no child of another one of them, as the remover is of the helper: parents PID...
parents() {
  local pid parent
  for pid in "$@"; do
    parent=$(sed -n 's/^PPid:\t//p' "$(box_proc)/$pid/status")
    if [[ " $* " != *" $parent "* ]]; then echo "$pid"; fi
  done
}

step_ended() { ! kill -0 "$step" 2> /dev/null; }

@test "row 18: what a container without a name writes is on disk, in a folder of its user's, and goes with it" {
  run -0 contained sh -c "echo here > /written; cat /written; df --output=source / | tail -n 1"
  [[ ${lines[0]} == here ]] || fail "$output"
  expect_equal "$(root stat -c '%U %a' "$state/upper/berth-2001")" "alice 700"
  nothing_on_disk
  [[ -z $(marks) ]]
  expect_no_leftovers
}

@test "two steps at a time have a folder each, a read-only one has none" {
  start_writing_step
  run -0 contained --overlap --container-readonly true
  run -0 contained sh -c "test ! -e /deep && ls $state/upper 2> /dev/null | wc -l"
  expect_equal "$(on_disk | wc -l)" 1
  root scancel -u alice
  within 10 step_ended
  wait_until 10 nothing_on_disk
  expect_no_leftovers
}

# The process that removes them is killed as well: the plugin does it, while the job goes on.
@test "kill -9 of the helper leaves no files of its container" {
  run -0 alice salloc -Q --no-shell -w n1
  start_writing_step --jobid="$(root squeue --noheader --format=%A)"
  mapfile -t helpers < <(berth_processes)
  kill_9 "${helpers[@]}"
  within 10 step_ended
  wait_until 10 nothing_on_disk
  no_marks() { [[ -z $(marks) ]]; }
  wait_until 10 no_marks
  expect_equal "$(root squeue --noheader --format=%T)" RUNNING
  cancel_everything
  expect_no_leftovers
}

@test "kill -9 of slurmstepd and of all that belongs to the container leaves no files after the job" {
  start_writing_step
  mapfile -t helpers < <(berth_processes)
  helpers+=("$(stepd_pid)")
  kill_9 "${helpers[@]}"
  # Without its slurmstepd a task lives on, as one without a container does.
  root pkill -9 -u alice -x 'sh|sleep' || true
  cancel_everything
  wait_until 30 "$box" status
  # Where nobody was left to do it, the next start does.
  run -0 contained true
  nothing_on_disk
  leaves_may_stay=1 expect_no_leftovers
}

# With cgroups the remover is stopped as well: it is killed with its cgroup. Without, nobody knows whose it is.
@test "a step whose helper and remover are stopped ends in time, and leaves no files" {
  start_writing_step
  mapfile -t helpers < <(berth_processes)
  if [[ $(root scontrol show config | sed -n 's/^ProctrackType *= //p') != proctrack/cgroup ]]; then
    mapfile -t helpers < <(parents "${helpers[@]}")
    expect_equal "${#helpers[@]}" 1
  fi
  signal_all STOP "${helpers[@]}"
  root scancel -u alice
  # KillWait and ten seconds.
  within 15 step_ended
  wait_until 15 nothing_on_disk
  no_marks() { [[ -z $(marks) ]]; }
  wait_until 10 no_marks
  expect_nodes_up
  expect_no_leftovers
}

# A small file system of n1's in place of the folder.
on_small_disk() { on_n1 mount -t tmpfs -o "size=$1,mode=1777" none "$state/upper"; }

@test "a full disk is an error of what writes to it: the container goes on, and goes" {
  on_small_disk 4m
  run contained sh -c 'head -c 16M /dev/zero > /large; echo "code $?"; rm /large; echo again > /small; cat /small'
  local code=$status left
  left=$(on_n1 find "$state/upper" -mindepth 2)
  on_n1 umount "$state/upper"
  expect_equal "$code" 0
  [[ $output == *"No space left on device"* && $output == *"code 1"* && ${lines[-1]} == again ]] || fail "$output"
  expect_equal "$left" ""
}

@test "a start on a full disk is one line that names the place" {
  on_small_disk 1m
  on_n1 dd if=/dev/zero of="$state/upper/full" bs=64k status=none 2> /dev/null || true
  run contained true
  on_n1 umount "$state/upper"
  [[ $status -ne 0 && $output == *"No space left on device"*" in $state/upper/"*"make room there"* ]] || fail "$output"
  expect_equal "$(grep -c . <<< "$output")" 2
  run -0 contained true
}

@test "what was left without any process goes with the user's next start" {
  run -0 contained true
  alice mkdir -p "$state/upper/berth-2001/$(on_n1 hostname).1.0000000000000000/upper/deep"
  run -0 contained true
  nothing_on_disk
}

@test "[site]: mounts and variables of the site, with the job's number, beside those of the user" {
  root install -d -m 755 "$state/upper/of-site"
  with_site_lines '[site]' "mounts = [\"$state/upper/of-site:/mnt/%j\"]" 'environment = ["OF_SITE=%j-%s-%n"]'
  # shellcheck disable=SC2016
  run -0 contained --container-mounts=/home/alice:/mnt/home \
    sh -c 'test -d /mnt/home && test -d "/mnt/$SLURM_JOB_ID" && test "$OF_SITE" = "$SLURM_JOB_ID-0-n1" && echo yes'
  expect_equal "$output" yes
}
