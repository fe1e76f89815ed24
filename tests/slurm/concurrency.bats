#!/usr/bin/env bats
# Many steps and jobs that ask for the same containers at once.
load helper

teardown() {
  cancel_everything
  for node in n1 n2; do
    alice srun -w $node bash -c \
      'for name in $(berth ps --json | jq -r ".containers[].name"); do berth rm --force "$name"; done' || true
  done
}

# Runs a command line as alice N times at once, with $i: at_once N 'srun ...'; all must succeed.
at_once() {
  in_home "for i in \$(seq $1); do export i; $2 & pids+=(\$!); done;
    for pid in \"\${pids[@]}\"; do wait \"\$pid\" || exit 1; done"
}

@test "five containers are created at once" {
  run -0 at_once 5 \
    "srun -n1 --container-image=$image --container-name=at-once-\$i sh -c 'echo \$SLURM_JOB_ID > /opt/job; sleep 1'"
  expect_no_leftovers
}

@test "fifty jobs use five names at once on two nodes: created once, shared by all, nothing left" {
  in_home 'rm -rf at-once; mkdir at-once'
  run -0 at_once 50 \
    "srun -n1 --overcommit --oversubscribe --container-image=$image --container-mounts=/home/alice \
      --container-name=at-once-\$((i % 5)) sh -c \
      'mkdir /opt/born 2> /dev/null && echo \$SLURMD_NODENAME-\$((i % 5)) >> /home/alice/at-once/births;
        echo \$i >> /opt/visits'"
  run -0 in_home 'sort at-once/births | uniq -d; for node in n1 n2;
      do srun -w $node sh -c "cat /var/lib/berth/2001.containers/global_at-once-*/upper/opt/visits" 2> /dev/null; done |
        sort -n | uniq | wc -l; rm -r at-once'
  expect_equal "$output" 50
  expect_no_leftovers
  expect_nodes_up
}

@test "fifty steps reuse names with no_exec" {
  for i in 0 1 2 3 4; do run -0 alice srun -w n1 --container-image="$image" --container-name="at-once-$i" true; done
  run -0 at_once 50 "srun -w n1 -n1 --overcommit --oversubscribe --container-name=at-once-\$((i % 5)):no_exec sleep 0.2"
  expect_no_leftovers
}
