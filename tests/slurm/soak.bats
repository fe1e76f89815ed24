#!/usr/bin/env bats
# bats file_tags=cgroup
# A little of what `make soak` does at length: starts, and kills at random moments, that leave nothing.
load helper

@test "starts and random kills of helpers, tasks and slurmstepd leave nothing" {
  run python3 "$repo/tests/soak/soak.py" slurm "$box" "$image" --starts 10 --kills 12
  expect_equal "$(grep -E 'LEFT|MISSED' <<< "$output")" ""
  expect_output_like "^10 starts, 0 failed; 12 of 12 victims hit: "
  expect_status 0
  expect_nodes_up
}
