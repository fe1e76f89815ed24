#!/usr/bin/env bats
# bats file_tags=cgroup
# A file server that is stopped while tasks wait for its answers: the step ends all the same, and the node goes on.
load helper

setup() {
  cancel_everything
  alice srun -w n1 berth rm --force leaf 2> /dev/null || true
  remember_job_groups
}

teardown() {
  cancel_everything
  in_home 'rm -f reading.*'
}

step_ended() { ! kill -0 "$step" 2> /dev/null; }

# Tasks that read the image past the page cache, from the file server alone (none of its files are kept unpacked),
# where the kernel waits for each answer. In a burst of reads one or another request is in the hands of the file server
# all the time, however busy the machine is. They rest after each:
# without that two processors did nothing else, and Linux 6.18 gave no other process a turn for up to twenty seconds.
# shellcheck disable=SC2016
reader='use Fcntl; my $folder = "/usr/lib/x86_64-linux-gnu"; opendir(my $all, $folder); my $reads = 0;
  my @names = grep(/\.so/, readdir($all)); open(my $mark, ">", "/home/alice/reading.$ENV{SLURM_PROCID}");
  for (;;) { for my $name (@names) { sysopen(my $file, "$folder/$name", O_RDONLY | O_DIRECT) or next;
    while (sysread($file, my $data, 131072)) { select(undef, undef, undef, 0.02) unless ++$reads % 50; } } }'

readers_run() { [[ $(in_home 'ls reading.* 2> /dev/null | wc -l') == 4 ]]; }

# A reader that SIGTERM has ended and that is still there: the kernel waits for the answer to what it has asked.
readers_hang() { root ps -C perl -o stat= | grep -q '^D'; }

# A step is cancelled whose file server was stopped with reads in flight: stop_and_cancel OPTIONS...
# Only a request that the server has taken, and not answered, holds its reader. A fast machine has bursts of a few
# milliseconds between rests of twenty, so that it takes some tries to stop the server in one.
stop_and_cancel() {
  local servers
  for _ in $(seq 30); do
    in_home 'rm -f reading.*'
    alice env BERTH_MOUNT_HOT_IMAGE_SIZE=0 srun -w n1 -n4 --container-image="$image" --container-mounts=/home/alice \
      "$@" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    step=$!
    wait_until 20 readers_run
    sleep 0.3
    mapfile -t servers < <(berth_processes)
    # The process that reads ahead may have ended meanwhile.
    root kill -STOP "${servers[@]}" || true
    root scancel -u alice
    cancelled=$SECONDS
    sleep 1
    if readers_hang; then return; fi
    root kill -CONT "${servers[@]}" || true
    cancel_everything
  done
  fail "no read was in flight when the server was stopped"
}

none_of_step_runs() { [[ -z $(berth_processes) ]] && ! root pgrep -x perl > /dev/null; }

# The step's processes end within KillWait and ten seconds; what Slurm does then has no such limit. slurmstepd tries for
# 2.3 s to tell srun of each group of tasks that ended together, and srun has gone. slurmd looks every second for ten
# seconds after SIGKILL, then every ten: a job that was there 15.7 s after scancel is seen to end after 25.7 s.
expect_end_in_time() {
  within 20 none_of_step_runs || fail "$((SECONDS - cancelled)) s after scancel: $(root ps -eo pid,stat,etime,args)"
  (( SECONDS - cancelled <= 15 )) || fail "the step's processes ended after $((SECONDS - cancelled)) s"
  wait_until 60 no_jobs
  step_ended || wait_until 5 step_ended
  expect_nodes_up
  expect_no_leftovers
  expect_no_new_job_groups
  run -0 bob srun -w n1 --container-image="$image" true
}

@test "a step whose helper is stopped with reads in flight ends within KillWait and ten seconds, and drains nothing" {
  stop_and_cancel perl -e "$reader"
  expect_end_in_time
}

@test "so does one whose tasks have ended, and left behind what reads" {
  stop_and_cancel sh -c "perl -e '$reader'; :"
  expect_end_in_time
}

@test "so does one in a named container, whose server is another process than the step's helper" {
  stop_and_cancel --container-name=leaf perl -e "$reader"
  expect_end_in_time
}
