#!/usr/bin/env bats
# Eight nodes of real Slurm that share what they pull.
load ../sites/site
load ../slurm/sharing

setup_file() { "$box" up --nodes 8 >&3 2>&1 && "$repo/scripts/make-test-image" --main >&3 2>&1 && start_faulty; }
teardown_file() { stop_faulty; }
setup() { share_on; }
teardown() {
  cancel_after_failure
  restore_site
}

# Without those beside srun.
node_pulls() {
  local pid
  for pid in $(pulls); do tr '\0' ' ' < "$(box_proc)/$pid/cmdline" | grep -q ' agree ' || echo "$pid"; done
}
node_pulls_are() { (( $(node_pulls | wc -l) == $1 )); }

lines() { for _ in $(seq "$1"); do echo "$2"; done; }

@test "eight nodes that lack an image ask the registry once for each blob; then they have it" {
  run -0 --separate-stderr together 8
  expect_equal "$output" "$(lines 8 'hello from the image')"
  expect_equal "$(most_requests)" 1
  expect_equal "$(count_since GET /v2/debian/manifests/)" 1
  wait_until 10 no_pulls
  expect_equal "$(temporary_files)" ""
  run -0 alice srun -N8 berth verify
  mark_log
  run -0 --separate-stderr together 8
  expect_equal "$output" "$(lines 8 'hello from the image')"
  expect_equal "$(count_since GET /v2/debian/)" 0
  expect_no_leftovers
}

@test "two of eight nodes lose their pull: the others get the image, and nothing is left" {
  local step killed
  alice srun -N8 --container-image="$faulty/slower:latest" /bare > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 node_pulls_are 8
  mapfile -t killed < <(node_pulls | head -n 2)
  kill_9 "${killed[@]}"
  wait "$step" || true
  expect_equal "$(grep -c '^bare$' "$BATS_TEST_TMPDIR/out")" 6 || fail "$(cat "$BATS_TEST_TMPDIR/out")"
  wait_until 10 no_pulls
  expect_equal "$(temporary_files)" ""
  # Once, and once more for each lost node that may have brought it.
  (( $(faulty_count 'GET /v2/slower/blobs/') <= 2 + 2 * ${#killed[@]} ))
  run -0 alice srun -N8 berth verify
  expect_no_leftovers
  expect_nodes_up
}
