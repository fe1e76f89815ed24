#!/usr/bin/env bats
# Only in a box whose nodes run a build with AddressSanitizer (`scripts/test sanitize`): that they do so.
load ../slurm/helper

# The files that a process of the box has mapped: maps_of PID.
maps_of() { root cat "/proc/$1/maps"; }

a_task_runs() { [[ -e $state/home/alice/runs ]]; }

@test "slurmstepd, the plugin in it and the helper of a step are those with the sanitizer" {
  in_home 'rm -f runs over'
  contained --container-mounts=/home/alice sh -c 'touch /home/alice/runs; until [ -e /home/alice/over ]; do
    sleep 0.1; done' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 a_task_runs
  stepd=$(stepd_pid)
  helper=$(berth_processes | head -n 1)
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
