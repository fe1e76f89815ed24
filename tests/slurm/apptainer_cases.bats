#!/usr/bin/env bats
# The quickest cases of Apptainer's own tests; `scripts/test apptainer` runs them all (tests/apptainer).
# shellcheck disable=SC2154
load helper

@test "apptainer: the quick cases of its own tests come out as the tables say" {
  run -0 python3 -B "$repo/tests/apptainer/run.py" --quick
  expect_output_like '^1\.\.[23][0-9]'
}
