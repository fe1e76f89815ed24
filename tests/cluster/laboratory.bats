#!/usr/bin/env bats
# The laboratory with few nodes: what of it holds however busy the machine is. It fails when a node that was not killed
# lacks the image, when a store is damaged, and when a blob was asked for too often.
bats_require_minimum_version 1.5.0
build=$BATS_TEST_DIRNAME/../../${BUILD:-build}

# Exit code 2: the times say nothing, since the machine was busy. Nothing here is said of times.
laboratory() {
  run "$BATS_TEST_DIRNAME/laboratory.py" --build "$build" --rate 20 --mtu 9000 --megabytes 8 "$@"
  (( status == 0 || status == 2 )) || { echo "$output" >&2; return 1; }
}

requests_are() {
  [[ $output =~ most_requests_a_blob\ +$1$'\n' ]] || { echo "$output" >&2; return 1; }
}

@test "twelve nodes, two late ones among them, ask for each blob once" {
  laboratory --nodes 12 --late 2
  requests_are 1
}

@test "a node that is slow and brings the largest layer costs one more request at most" {
  laboratory --nodes 8 --slow 1 --slow-owners
}

@test "nodes that are killed cost one more request each at most, and the others get the image" {
  local seed
  for seed in 1 2 3; do laboratory --nodes 12 --kill 3 --owners $((seed % 3)) --seed "$seed"; done
}

@test "packets are lost and the registry is 60 ms away, and each blob is asked for once all the same" {
  laboratory --nodes 6 --loss 0.5 --delay 30
  requests_are 1
}

@test "nodes get the image although nobody reaches some of them, or half of them does not reach the others" {
  laboratory --nodes 6 --closed 2
  laboratory --nodes 6 --partition 5
}

@test "a node that comes when the one before it stands still is whole in its time, though that one's connections stay" {
  laboratory --before stopped,alive
  laboratory --before stopped,stopped
}

@test "starts come before the image, and get what they read while nodes are killed" {
  laboratory --nodes 8 --early --kill 2
}

@test "an ordinary user can run the laboratory" {
  local folder as=()
  folder=$(mktemp -d /tmp/berth-laboratory-XXXXXX)
  mkdir "$folder/tests" "$folder/build"
  cp -r "$BATS_TEST_DIRNAME" "$BATS_TEST_DIRNAME/../registry" "$folder/tests"
  cp "$build/berth-pull" "$folder/build"
  chmod -R a+rX "$folder"
  (( EUID )) || as=(setpriv --reuid 2100 --regid 2100 --clear-groups env -i PATH="$PATH" PYTHONDONTWRITEBYTECODE=1)
  run "${as[@]}" "$folder/tests/cluster/laboratory.py" --build "$folder/build" --nodes 4 --rate 20 --mtu 9000 \
    --megabytes 8 --kill 1 --slow 1 --slow-known
  rm -rf "$folder"
  (( status == 0 || status == 2 )) || { echo "$output" >&2; return 1; }
  [[ $output == *"failed                  []"* ]]
}
