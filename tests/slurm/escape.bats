#!/usr/bin/env bats
# bats file_tags=cgroup
# A hostile image tries the known ways out of a container (tests/hostile/escape), as a step of Slurm's. What it may
# reach all the same is in SECURITY.md, "What an image may signal and reach".
load helper

secret=/home/alice/escape-node/secret

setup_file() {
  load helper
  program=${BUILD:-build}/tests/escape
  (cd "$repo" && { [[ -x $program ]] || make -s "$program"; } && cp "$program" "$state/home/alice/escape")
  # Symlinks lead to a folder of the node where a start mounts and writes.
  in_home "rm -rf escape-tree escape-node escape.sqsh
    mkdir -p escape-node escape-ro escape-tree/{bin,etc,dev,proc,ro,var}
    echo secret-of-alice > escape-node/secret; echo data > escape-ro/data
    cp escape escape-tree/bin/escape; cp escape escape-tree/bin/escape-setuid; chmod 4755 escape-tree/bin/escape-setuid
    ln -s $secret escape-tree/link
    for name in hosts passwd group resolv.conf; do ln -s ../../../../../..$secret escape-tree/etc/\$name; done
    for name in run sys tmp var/tmp dev/shm dev/pts; do ln -s /home/alice/escape-node escape-tree/\$name; done
    mksquashfs escape-tree escape.sqsh -quiet -no-progress -all-root"
}

teardown_file() {
  in_home 'rm -rf escape escape-tree escape-node escape-ro escape.sqsh'
}

setup() {
  # A process of the user's on the node, which has all there is to take.
  in_home "ESCAPE_SECRET=$secret ESCAPE_TOKEN=secret-of-alice srun --overlap -Q -w n1 ./escape victim escape-node" \
    > "$BATS_TEST_TMPDIR/victim" 2>&1 3>&- &
  wait_until 20 grep -q '^victim ' "$BATS_TEST_TMPDIR/victim"
}

teardown() {
  cancel_everything
  expect_nodes_up
}

all_ways() { "$state/home/alice/escape" list; }

# Each way's name and what it came to, as it is said by the step.
attempts() {
  in_home "ESCAPE_SECRET=$secret ESCAPE_TOKEN=secret-of-alice srun --overlap -w n1 --container-image=./escape.sqsh \
    --container-mounts=/home/alice/escape-ro:/ro:ro $* 8< / 9< $secret"
}

# Of all ways, or of all but a number of them.
expect_nothing_got() {
  expect_status 0
  expect_only_refused "$@"
}
expect_only_refused() {
  ! grep -F ': got it' <<< "$output" || fail "$output"
  (( $(grep -c ': refused (' <<< "$output") >= 50 )) || fail "$output"
  expect_equal "$(grep -c '^[a-z0-9-]*: \(refused\|absent\) (' <<< "$output")" "$(($(all_ways | wc -l) - ${1:-0}))"
  expect_equal "$(in_home 'cat escape-node/secret escape-ro/data; ls escape-node escape-ro')" \
    $'secret-of-alice\ndata\nescape-node:\nsecret\nsocket\n\nescape-ro:\ndata'
}

@test "an image that tries all known ways out gets nothing, as the user and as root inside" {
  for options in '' --container-remap-root; do
    run attempts $options /bin/escape
    expect_nothing_got
  done
}

@test "with --container-nested it gets namespaces of its own, and out of these nothing more" {
  # tests/kernel/escape_test.cc says what these are.
  local own='nested-namespace|32-bit-calls|x32-calls|device-files|fuse|overlay|release-agent' within
  within="$own|mount-tmpfs|mount-proc|new-mount-calls|pivot-root|capset"
  for options in '' --container-remap-root; do
    run attempts --container-nested $options /bin/escape
    expect_output_like 'nested-namespace: got it'
    output=$(sed -E "s/^($own): got it/\\1: refused/" <<< "$output")
    expect_only_refused
    run attempts --container-nested $options /bin/escape within
    expect_output_like 'mount-tmpfs: got it'
    output=$(sed -E "s/^($within): got it/\\1: refused/" <<< "$output")
    expect_only_refused
  done
}

@test "nor in a named container, nor from a terminal" {
  run attempts --container-name=hostile /bin/escape
  expect_nothing_got
  run -0 alice srun --overlap -Q -w n1 berth rm hostile
  # With --pty the node's terminals are there, and those of the user can be opened.
  ways=$(all_ways | cut -f 1 | grep -vx terminals | xargs)
  run script -qec "'$box' run -u alice -- env ESCAPE_SECRET=$secret ESCAPE_TOKEN=secret-of-alice srun -w n1 --pty \
    --container-image=./escape.sqsh --container-mounts=/home/alice/escape-ro:/ro:ro /bin/escape $ways" /dev/null \
    < /dev/null
  # The terminal shows the end of its input as well.
  output=$(tr -d '\r' <<< "$output" | sed 's/^^@//')
  expect_nothing_got 1
}

@test "a working directory behind a descriptor leads nowhere" {
  for number in $(seq 3 16); do
    run attempts --container-workdir=/proc/self/fd/"$number" /bin/escape dot-dot
    expect_failure
    [[ $output != *'got it'* && $output != *tried* ]] || fail "$output"
  done
}

@test "on the node itself the user's attempts succeed" {
  ways=$(all_ways | awk -F '\t' '$2 == "user" && $1 != "own-descriptors" { printf "%s ", $1 }')
  run in_home "ESCAPE_SECRET=$secret ESCAPE_TOKEN=secret-of-alice ESCAPE_CONTROL=/home/alice \
    ESCAPE_LINK=/home/alice/escape-tree/link ESCAPE_READ_ONLY=/home/alice/escape-ro \
    srun --overlap -Q -w n1 ./escape $ways"
  expect_status 1
  expect_equal "$(grep -c ': got it' <<< "$output")" "$(wc -w <<< "$ways")"
}
