#!/usr/bin/env bats
# ConstrainRAMSpace: what a step has in memory is limited, files of the container and its file server included.
load site

setup_file() { site_up --cgroup --with memory; }

setup() { cancel_everything; }

teardown() { restore_site; }

# Whom the kernel ends first is its choice by their size, and here slurmstepd may not protect itself: the test says who.
@test "memory: when the file server is killed for memory, one line says so, and the step ends" {
  in_home 'rm -f started go'
  contained --mem=60M --container-mounts=/home/alice sh -c 'cd /home/alice; touch started
    until test -e go; do sleep 0.1; done; exec head -c 400M /dev/zero > /tmp/file' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 alice test -e started
  for pid in $(berth_processes); do echo 1000 > "$(box_proc)/$pid/oom_score_adj"; done
  in_home 'touch go'
  step=$! rc=0
  wait_until 60 step_over "$step"
  wait "$step" || rc=$?
  (( rc != 0 )) || fail "the step succeeded"
  run -0 cat "$BATS_TEST_TMPDIR/out"
  expect_output_like "berth: the container's file server on n1 was killed: the step has no memory left"
  expect_one_error_line
  expect_no_leftovers
  expect_nodes_up
}

@test "memory: a task that is killed for memory ends neither the container nor the other tasks" {
  in_home 'rm -f first; cat > task.sh' <<'END'
cd /home/alice
if [ "$SLURM_PROCID" = 0 ]; then
  perl -e 'my $x = "a" x 400_000_000'
  echo ended $? > first
  exit
fi
until test -e first; do sleep 0.1; done
cat /usr/bin/* > /dev/null && only-in-image
END
  run contained --mem=60M -n2 --container-mounts=/home/alice sh /home/alice/task.sh
  expect_equal "$(in_home 'cat first')" "ended 137"
  expect_output_like "only in the image"
  [[ $output != *"file server"* ]] || fail "$output"
  expect_no_leftovers
  expect_nodes_up
}

@test "memory: reading more of the image than the limit, and pulling with little memory, work at the limit" {
  run -0 contained --mem=48M sh -c 'cat /usr/lib/x86_64-linux-gnu/* /usr/bin/* 2> /dev/null | wc -c'
  (( output > 48 << 20 )) || fail "only $output bytes"
  forget_images
  run -0 contained --mem=200M only-in-image
  expect_equal "$output" "only in the image"
}

# As a job that installs packages or writes checkpoints: three times its memory.
@test "memory: what a container without a name writes is no memory of the job with mount.upper on disk" {
  root install -d -m 1777 "$state/upper"
  with_site_lines '[mount]' "upper = \"$state/upper\""
  # shellcheck disable=SC2016
  run -0 contained --mem=100M sh -c 'head -c 300M /dev/zero > /checkpoint && stat -c %s /checkpoint'
  expect_equal "$output" $((300 << 20))
  restore_site
  expect_equal "$(find "$state/upper" -mindepth 2)" ""
  expect_nodes_up
}
