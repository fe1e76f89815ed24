#!/usr/bin/env bats
# In a guest (scripts/test matrix distribution:nfs-bookworm): a store on NFS that two hosts use at once. The hosts are
# network namespaces of the guest with names of their own, so that the server has two clients: of one client it expects
# that it knows what it has open itself. With version 3 and nolock neither sees the locks of the other, with version 4
# both do. As root; pulls are an ordinary user's.
bats_require_minimum_version 1.5.0

setup_file() {
  local layouts
  served=/srv/nfs
  mkdir -p "$served" /mnt/host1 /mnt/host2
  echo "$served 10.66.0.0/16(rw,no_root_squash,no_subtree_check,insecure)" > /etc/exports
  systemctl start rpcbind nfs-kernel-server
  make_host 1
  make_host 2
  start_registry
  layouts=$(find /var/cache/berth-test -maxdepth 1 -name 'layouts-*' | head -n 1)
  skopeo --insecure-policy copy --quiet --dest-tls-verify=false --preserve-digests "oci:$layouts/debian" \
    docker://127.0.0.1:5077/debian:12
  image=127.0.0.1:5077/debian:12
  export served image
}

# Host N reaches the guest as 10.66.N.1.
make_host() {
  ip netns add "host$1"
  ip link add "host$1" type veth peer name eth0 netns "host$1"
  ip address add "10.66.$1.1/24" dev "host$1"
  ip link set "host$1" up
  ip -n "host$1" address add "10.66.$1.2/24" dev eth0
  ip -n "host$1" link set eth0 up
  ip -n "host$1" link set lo up
  ip -n "host$1" route add default via "10.66.$1.1"
}

start_registry() {
  local folder=$BATS_FILE_TMPDIR
  printf '%s\n' 'version: 0.1' 'storage: {filesystem: {rootdirectory: '"$folder"'/registry}}' \
    'http: {addr: 127.0.0.1:5077}' > "$folder/registry.yml"
  docker-registry serve "$folder/registry.yml" > "$folder/registry.log" 2>&1 3>&- &
  echo $! > "$folder/registry.pid"
  until curl --silent --fail --output /dev/null http://127.0.0.1:5077/v2/; do sleep 0.2; done
}

teardown_file() {
  kill "$(cat "$BATS_FILE_TMPDIR/registry.pid")" || true
  systemctl stop nfs-kernel-server || true
  ip netns delete host1
  ip netns delete host2
}

# With the name of a host: named HOST CMD...
named() {
  # shellcheck disable=SC2016
  unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$@"
}

# The test's own store, by the mounts of both hosts: mount_hosts OPTIONS
mount_hosts() {
  local number
  rm -rf "${served:?}"/*
  install -d -o 2100 -g 2100 -m 700 "$served/store"
  for number in 1 2; do
    named "host$number" nsenter --net="/run/netns/host$number" mount -t nfs -o "$1" "10.66.$number.1:$served" \
      "/mnt/host$number"
  done
}

teardown() {
  pkill -CONT -U 2100 || true
  pkill -KILL -U 2100 || true
  umount --lazy /mnt/host1 /mnt/host2
}

# The user's command on a host, which is one by its mount and its name: on host1 CMD...
on() {
  named "$1" setpriv --reuid 2100 --regid 2100 --clear-groups env HOME=/tmp \
    BERTH_STORE_PATH="/mnt/$1/store" PATH="$BERTH_BOX_TREE/usr/bin:$PATH" "${@:2}"
}

# until_true SECONDS CMD...: times the test's slowness.
until_true() {
  local deadline=$((SECONDS + $1 * ${BERTH_TEST_SLOWNESS:-1}))
  shift
  until "$@"; do
    (( SECONDS < deadline )) || { echo "it does not come true: $*"; return 1; }
    sleep 0.2
  done
}

turn_is_taken() { compgen -G "$served/store/locks/*.turn" > /dev/null; }

# host1 pulls and is stopped, once it has its turn.
begin_on_host1() {
  on host1 berth pull "$image" > "$BATS_TEST_TMPDIR/host1" 2>&1 3>&- &
  first=$!
  until_true 10 turn_is_taken
  pkill -STOP -U 2100 berth-pull
}

begin_on_host2() {
  on host2 berth pull "$image" > "$BATS_TEST_TMPDIR/host2" 2>&1 3>&- &
  second=$!
}

host2_says() { grep -q "$1" "$BATS_TEST_TMPDIR/host2"; }

# How often each blob was fetched since the line LINE of the registry's log, the most first.
fetched_since() {
  tail -n +"$(($1 + 1))" "$BATS_FILE_TMPDIR/registry.log" |
    sed -nE 's|.*"GET /v2/debian/blobs/(sha256:[0-9a-f]+) .*|\1|p' | sort | uniq -c | sort -nr
}

each_was_fetched_once_since() {
  run fetched_since "$1"
  [[ $(awk '{ print $1; exit }' <<< "$output") == 1 ]] || { echo "fetched: $output"; return 1; }
}

lines_now() { wc -l < "$BATS_FILE_TMPDIR/registry.log"; }

image_is_whole() {
  run on "$1" berth verify
  [[ $status == 0 ]] || { echo "verify on $1 ended with $status: $output"; return 1; }
  run on "$1" berth run "$image" cat /etc/debian_version
  [[ $status == 0 && $output == 12.* ]] || { echo "a container on $1 ended with $status: $output"; return 1; }
}

# Both want the image: host2 says for whom it waits, and each blob is fetched once.
one_pulls_for_both() {
  local before
  before=$(lines_now)
  begin_on_host1
  begin_on_host2
  until_true 10 host2_says 'waiting for process [0-9]* on host1, which is pulling'
  pkill -CONT -U 2100 berth-pull
  wait "$first"
  wait "$second"
  each_was_fetched_once_since "$before"
}

@test "nfs: of two hosts that do not see each other's locks one pulls, and the other says for whom it waits" {
  mount_hosts vers=3,nolock
  one_pulls_for_both
  image_is_whole host1
  image_is_whole host2
  ! turn_is_taken
}

@test "nfs: the turn of a host that is gone is taken by another one after a minute" {
  mount_hosts vers=3,nolock
  begin_on_host1
  pkill -KILL -U 2100 berth-pull
  wait "$first" || true
  turn_is_taken
  begin_on_host2
  until_true 10 host2_says 'waiting for process [0-9]* on host1'
  wait "$second"
  image_is_whole host2
  # One of host1's may stay, for a layer that was here already when it was killed.
  run grep --files-with-matches '^host2\.' "$served"/store/locks/*.turn
  [[ $status != 0 ]] || { echo "left by host2: $output"; return 1; }
}

@test "nfs: with locks that all hosts see it is the same" {
  mount_hosts vers=4.2
  one_pulls_for_both
  image_is_whole host2
}

@test "nfs: what one host removes while a container of the other runs" {
  mount_hosts vers=4.2
  on host1 berth pull "$image"
  on host1 berth run "$image" sh -c 'echo begun; read line; cat /usr/bin/* /usr/lib/x86_64-linux-gnu/*.so* | wc -c' \
    > "$BATS_TEST_TMPDIR/out" 2>&1 < <(until [[ -e $BATS_TEST_TMPDIR/go ]]; do sleep 0.2; done; echo) 3>&- &
  first=$!
  until_true 20 grep -q begun "$BATS_TEST_TMPDIR/out"
  run on host2 berth rmi "$image"
  [[ $status != 0 && $output == *'in use'* ]] || { echo "rmi ended with $status: $output"; return 1; }
  touch "$BATS_TEST_TMPDIR/go"
  wait "$first"
  image_is_whole host1
}
