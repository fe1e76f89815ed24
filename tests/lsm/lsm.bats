#!/usr/bin/env bats
# In a guest (scripts/test matrix distribution:lsm-trixie): nodes that keep users from what a container needs. doctor
# names the reason and what to do, and a start is one line with exit code 125. As root.

setup_file() {
  image=$BATS_FILE_TMPDIR/image.sqsh
  mkdir -p "$BATS_FILE_TMPDIR/tree/bin"
  cp /bin/true "$BATS_FILE_TMPDIR/tree/bin/"
  ldd /bin/true | grep -o '/[^ ]*' | xargs cp --parents -t "$BATS_FILE_TMPDIR/tree"
  mksquashfs "$BATS_FILE_TMPDIR/tree" "$image" -quiet -no-progress > /dev/null
  chmod -R a+rX "${BATS_FILE_TMPDIR%/*/*}"
  export image
}

# The setting as it was, and no profile.
teardown() {
  [[ ! -e $BATS_TEST_TMPDIR/setting ]] || sysctl -q -w "$(cat "$BATS_TEST_TMPDIR/setting")"
  [[ ! -e $BATS_TEST_TMPDIR/profile ]] || apparmor_parser --remove "$BATS_TEST_TMPDIR/profile"
}

as_user() {
  setpriv --reuid 2100 --regid 2100 --clear-groups env HOME=/tmp BERTH_STORE_PATH=/tmp/lsm-store \
    PATH="$BERTH_BOX_TREE/usr/bin:$PATH" "$@"
}

# For this test: set_node NAME VALUE.
set_node() {
  echo "$1=$(sysctl -n "$1")" > "$BATS_TEST_TMPDIR/setting"
  sysctl -q -w "$1=$2"
}

# What the program may do, all but what is denied: confine RULE...
confine() {
  printf '%s\n' 'abi <abi/4.0>,' "profile lsm-test $BERTH_BOX_TREE/usr/bin/berth flags=(attach_disconnected) {" \
    'file, network, capability, signal, ptrace, unix, dbus, pivot_root, umount,' "$@" '}' > "$BATS_TEST_TMPDIR/profile"
  apparmor_parser --replace "$BATS_TEST_TMPDIR/profile"
}

# doctor's line about SUBJECT fails with these words, and so does a start: refused SUBJECT WORDS.
refused() {
  run as_user berth doctor
  doctor=$output
  [[ $status == 1 ]] || { echo "doctor ended with $status: $output"; return 1; }
  grep -qE "^FAILED +$1 .*$2" <<< "$output" || { echo "doctor does not say '$2' of $1: $output"; return 1; }
  run as_user berth run "$image" true
  [[ $status == 125 && ${#lines[@]} == 1 ]] || { echo "berth run ended with $status: $output"; return 1; }
  [[ $output =~ $2 ]] || { echo "berth run does not say '$2': $output"; return 1; }
}

@test "lsm: a node that has nothing against it runs a container" {
  # The guest's slurmd knows nothing of Berth.
  run as_user berth doctor
  [[ $(grep FAILED <<< "$output") == FAILED*Slurm* ]] || { echo "$output"; return 1; }
  run as_user berth run "$image" true
  [[ $status == 0 ]] || { echo "$output"; return 1; }
}

@test "lsm: kernel.unprivileged_userns_clone=0" {
  set_node kernel.unprivileged_userns_clone 0
  refused 'user namespaces' 'sysctl -w kernel.unprivileged_userns_clone=1'
}

@test "lsm: user.max_user_namespaces=0" {
  set_node user.max_user_namespaces 0
  refused 'user namespaces' 'sysctl -w user.max_user_namespaces=15000'
}

@test "lsm: a profile of AppArmor that lets it make no user namespace" {
  confine mount,
  refused 'user namespaces' 'a security module forbids them'
}

@test "lsm: a profile of AppArmor that lets it mount nothing" {
  confine userns,
  refused overlay 'a security module .*forbids mounts to berth'
  grep -qE -- '-> allow berth to mount, by the rule .mount. of its AppArmor profile' <<< "$doctor"
}
