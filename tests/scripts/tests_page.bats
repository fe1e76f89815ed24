# Whether docs/tests.md knows the tests and folders that there are.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

# The page, or another one: problems PAGE prints what is not so.
problems() { python3 -B "$BATS_TEST_DIRNAME/tests_page.py" "$@"; }

setup() { page=$BATS_TEST_DIRNAME/../../docs/tests.md; }

@test "each test has a row in docs/tests.md, each row has tests, and each folder of code has a row" {
  run -0 problems "$page"
  [[ -z $output ]] || { echo "$output"; false; }
}

@test "a test without a row, a row without a test and a folder without a row are told" {
  sed 's|`kernel/mounts\*`, ||; s|`unit/report`|`unit/no_such_thing`|; /^| `hooks\/amd`/d' "$page" \
    > "$BATS_TEST_TMPDIR/page.md"
  run -1 problems "$BATS_TEST_TMPDIR/page.md"
  grep -qx 'tests/kernel/mounts_order_test.cc has no row' <<< "$output"
  grep -qx 'unit/no_such_thing is the name of no test' <<< "$output"
  grep -qx 'tests/unit/report_test.cc has no row' <<< "$output"
  grep -qx 'the folder hooks/amd has no row' <<< "$output"
}

@test "tests-of prints the tests of a file by its name, its header and its folder, with what runs them" {
  run -0 "$BATS_TEST_DIRNAME/../../scripts/tests-of" runtime/mount/fuse/watchdog.cc
  [[ ${lines[0]} =~ ^by\ name\ +unit/mount_watchdog\ +make\ unit\ TAG=mount$ ]]
  grep -qE "^by folder +kernel/stall +BERTH_MUST_RUN=1 build/tests/kernel '\[lifecycle\]'$" <<< "$output"
  run -0 "$BATS_TEST_DIRNAME/../../scripts/tests-of" runtime/oci/layer/layer.cc
  grep -qE '^by header ' <<< "$output"
  run -0 "$BATS_TEST_DIRNAME/../../scripts/tests-of" --count
  [[ $output =~ ^[0-9]+\ files:\ [0-9]+\ have\ a\ test ]]
  run -1 "$BATS_TEST_DIRNAME/../../scripts/tests-of" man
  [[ $output == *"has no row for the folder man" ]]
}
