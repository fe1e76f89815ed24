#!/usr/bin/env bats
# Only in a box whose nodes run a build with AddressSanitizer (`scripts/test sanitize`): that they do so.
load ../slurm/helper

# The files that a process of the box has mapped: maps_of PID.
maps_of() { root cat "/proc/$1/maps"; }

a_task_runs() { [[ -e $state/home/alice/runs ]]; }

# A step whose task waits for the end of the test.
begin_step() {
  in_home 'rm -f runs over'
  contained --container-mounts=/home/alice sh -c 'touch /home/alice/runs; until [ -e /home/alice/over ]; do
    sleep 0.1; done' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 a_task_runs
  stepd=$(stepd_pid)
  helper=$(berth_processes | head -n 1)
}

reports() { root bash -c "cat $state/log/sanitizer/* | tr -d '\0'"; }
# What this test has caused is none of a mistake's.
forget_reports() {
  root bash -c "cd $state/log/sanitizer && find . -name 'report*' -delete &&
    dd if=/dev/zero of=mapped bs=64K count=1 conv=notrunc status=none"
}

@test "a report of slurmstepd's process or of the helper's is seen" {
  expect_equal "$(reports)" ""
  local victim
  for victim in helper stepd; do
    begin_step
    root kill -SEGV "${!victim}"
    wait_until 20 eval 'reports | grep -q "AddressSanitizer: SEGV"' || fail "none of the $victim"
    # srun waits for a slurmstepd that has gone.
    cancel_everything
    wait "$step" || true
    expect_no_leftovers
    forget_reports
  done
  expect_nodes_up
}

@test "slurmstepd, the plugin in it and the helper of a step are those with the sanitizer" {
  begin_step
  maps=$(maps_of "$stepd")
  helpers_maps=$(maps_of "$helper")
  program=$(root readlink "/proc/$helper/exe")
  mounted=$(root cat "/proc/$stepd/mountinfo")
  in_home 'touch over'
  wait "$step"
  [[ $maps == */libasan.so* ]] || fail "slurmstepd has not the sanitizer's library:" "$maps"
  [[ $maps == */spank_berth.so* ]] || fail "slurmstepd has no plugin:" "$maps"
  [[ $helpers_maps == */libasan.so* ]] || fail "the helper $program has not the sanitizer's library:" "$helpers_maps"
  # What is loaded there calls the sanitizer.
  run -0 nm -D "$state/lib/sanitized/spank_berth.so"
  expect_output_like "__asan_report_load8"
  [[ $mounted == *"/lib/sanitized/spank_berth.so "*"/slurm-wlm/spank_berth.so "* ]] ||
    fail "the node's plugin is another one:" "$mounted"
}
