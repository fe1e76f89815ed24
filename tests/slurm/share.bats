#!/usr/bin/env bats
# The nodes of a step share what they pull (share.enabled): one of them asks the registry for each layer, and the others
# take it from their neighbours while it comes.
load helper
load sharing

events=$state/events
words=/etc/slurm/plugstack.conf.d/berth.conf

setup_file() { start_faulty; }
teardown_file() { stop_faulty; }

setup() {
  root bash -c "rm -rf $events && mkdir -m 1777 $events"
  share_on '[events]' "log = \"$events/%u.jsonl\""
}

teardown() {
  root bash -c "[[ ! -e $words.kept ]] || mv $words.kept $words; rm -f /usr/local/bin/few-files"
  cancel_after_failure
  restore_site
}

@test "two nodes that lack an image ask the registry once for each blob, and for its manifest" {
  run -0 --separate-stderr together 2
  expect_equal "$output" "hello from the image"$'\n'"hello from the image"
  expect_equal "$(most_requests)" 1
  expect_equal "$(count_since GET /v2/debian/manifests/)" 1
  wait_until 10 no_pulls
  expect_equal "$(temporary_files)" ""
  # Of the three layers each has what the other one has brought.
  run -0 alice srun -w n1 berth verify
  expect_output_like "[12] of 3 layers from n2, through nodes of the step"
  local brought=${output% of 3 layers from n2*}
  run -0 alice srun -w n2 berth verify
  expect_output_like "$((3 - ${brought##*: })) of 3 layers from n1, through nodes of the step"
  # What both have fetched together came from the registry once, and once from the other node.
  expect_equal "$(jq -s '[.[]|select(.kind=="pull")]|length == 2 and ([.[].bytes]|add) == 2 * ([.[].peer_bytes]|add)' \
    "$events/alice.jsonl")" true
}

@test "a node that has some of the layers gives them, and the registry is asked for the others alone" {
  run -0 alice srun -w n1 --container-image="$image" true
  # shellcheck disable=SC2016
  root bash -c 'cd "$(dirname "$1"/*/layers)" && rm -r images/* refs/* && rm "layers/$(ls -S layers | tail -n 1)"' \
    bash "$state/nodes/n1/store"
  mark_log
  run -0 together 2
  # The config and one layer.
  expect_equal "$(count_since GET /v2/debian/blobs/)" 2
}

@test "without a port to serve at, each node pulls for itself, and says why" {
  # A pull of less than a second says nothing of it.
  run -0 alice env BERTH_SHARE_PORTS=1-1 srun -N2 --container-image="$faulty/slow:latest" /bare
  expect_output_like "is not shared with the other nodes of the step: .*none of 1 to 1 is free; see share.ports"
  expect_equal "$(grep -o 'GET /v2/slow/blobs/sha256:[0-9a-f]*' "$BATS_FILE_TMPDIR/faulty.log" | sort | uniq -c |
    awk '{ print $1 }')" $'2\n2'
}

@test "a node whose task has ended takes its pull with it, and the other one still gets the image" {
  # shellcheck disable=SC2016
  run -0 --separate-stderr alice srun -N2 --container-image="$image" \
    sh -c '[ "$SLURM_NODEID" = 0 ] || sleep 1; echo here'
  expect_equal "$output" here$'\n'here
  wait_until 10 no_pulls
}

@test "scancel ends a step whose nodes are still sharing, and leaves nothing" {
  alice srun -J shared -N2 --container-image="$image" sleep 60 > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 pulls
  alice scancel -n shared
  wait_until 15 no_jobs
  wait $! || true
  wait_until 10 no_pulls
  expect_equal "$(temporary_files)" ""
  run -0 alice srun -N2 --container-image="$image" true
}

@test "one node alone, and a site that does not want it, pull as ever" {
  run -0 alice srun -N1 --container-image="$image" true
  expect_equal "$(most_requests)" 1
  forget_images
  mark_log
  run -0 alice env BERTH_SHARE_ENABLED=false srun -N2 --container-image="$image" true
  expect_equal "$(most_requests)" 2
}

# Those who share, srun's tracker and the nodes' pulls, may open no more files than that: few_files N.
few_files() {
  root bash -c "cp $words $words.kept; echo 'required spank_berth.so helper=/usr/local/bin/few-files' > $words
    install -m 755 /dev/stdin /usr/local/bin/few-files" << END
#!/bin/sh
ulimit -n $1
exec /usr/bin/berth "\$@"
END
}

@test "256 open files and strangers at every port: two nodes share the image all the same" {
  local name pid
  few_files 256
  for name in silent dripping lines tls; do
    forget_images
    mark_log
    python3 -B "$repo/tests/cluster/strangers_srun.py" --only "$name" 3>&- &
    pid=$!
    run -0 --separate-stderr together 2
    kill "$pid"
    wait "$pid" || true
    expect_equal "$name $output" "$name hello from the image"$'\n'"hello from the image"
    expect_equal "$name $(most_requests)" "$name 1"
  done
}
