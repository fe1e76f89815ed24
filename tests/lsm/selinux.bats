#!/usr/bin/env bats
# In a guest (scripts/test matrix distribution:selinux-trixie) with SELinux, which enforces Debian's policy: an
# unconfined user runs containers, and a confined one hears what denies them. As root.

unconfined=unconfined_u:unconfined_r:unconfined_t:s0
confined=user_u:user_r:user_t:s0

setup_file() {
  image=$BATS_FILE_TMPDIR/image.sqsh
  mkdir -p "$BATS_FILE_TMPDIR/tree/bin"
  cp /bin/{true,cat,sh,rm} "$BATS_FILE_TMPDIR/tree/bin/"
  ldd /bin/{true,cat,sh,rm} | grep -o '/[^ ]*[^:]$\|/[^ ]* ' | sort -u | xargs cp --parents -t "$BATS_FILE_TMPDIR/tree"
  mksquashfs "$BATS_FILE_TMPDIR/tree" "$image" -quiet -no-progress > /dev/null
  chmod -R a+rX "${BATS_FILE_TMPDIR%/*/*}"
  # The label of a site's files, for all to read.
  chcon -t usr_t "${BATS_FILE_TMPDIR%/*/*}" "${BATS_FILE_TMPDIR%/*}"
  chcon -R -t usr_t "$BATS_FILE_TMPDIR"
  export image
}

teardown() {
  setsebool berth_user_containers off
}

# as_user CONTEXT CMD...
as_user() {
  setpriv --reuid 2100 --regid 2100 --clear-groups runcon "$1" env HOME=/tmp BERTH_STORE_PATH="/tmp/store-${1%%:*}" \
    PATH="$BERTH_BOX_TREE/usr/bin:$PATH" "${@:2}"
}

# expect CODE OUTPUT, of the last command.
expect() {
  [[ $status == "$1" && $output == "$2" ]] || { echo "ended with $status: $output"; return 1; }
}

# A user in this context runs containers: runs_containers CONTEXT.
runs_containers() {
  # The guest's slurmd knows nothing of Berth.
  run as_user "$1" berth doctor
  [[ $(grep FAILED <<< "$output") == FAILED*Slurm* ]] || { echo "$output"; return 1; }
  run as_user "$1" berth run "$image" true
  expect 0 ''
  # The kernel ends the context with a NUL, which sh drops.
  run as_user "$1" berth run --rw "$image" \
    sh -c 'rm /bin/rm && echo written > /new && cat /new && echo "$(cat /proc/self/attr/current)"'
  expect 0 written$'\n'"$1"
}

@test "selinux: the guest enforces the policy" {
  [[ $(getenforce) == Enforcing ]]
  sestatus | grep -qE '^Loaded policy name: +default$'
}

@test "selinux: an unconfined user runs containers" {
  runs_containers "$unconfined"
}

@test "selinux: a confined user may make no user namespace, and hears that it is SELinux's doing" {
  words="creating a user namespace: Permission denied; SELinux forbids them to $confined: ausearch -m avc -ts recent"
  run as_user "$confined" berth doctor
  [[ $status == 1 && $output =~ FAILED\ +user\ namespaces\ +"$words".*'docs/install/selinux.md' ]] ||
    { echo "doctor ended with $status: $output"; return 1; }
  run as_user "$confined" berth run "$image" true
  expect 125 "berth: $words has the denial"
  ausearch -m avc -ts recent | grep -qE 'denied +\{ create \}.* comm="berth" .*:user_t:.* tclass=user_namespace'
}

@test "selinux: with the boolean of Berth's module a confined user runs containers" {
  cmp /root/berth.cil conf/selinux/berth.cil || { echo "the guest was made with another module: remove it"; return 1; }
  setsebool berth_user_containers on
  runs_containers "$confined"
}

@test "selinux: Slurm runs a step in a container on two nodes, started by an unconfined root" {
  box=(runcon "$unconfined" bash scripts/slurm-in-a-box)
  "${box[@]}" up --cgroup
  cp "$image" "${BERTH_BOX_DIR:-/var/tmp/berth-box}/home/alice/image.sqsh"
  run "${box[@]}" run -u alice -- srun --quiet -N2 --container-image=/home/alice/image.sqsh sh -c 'echo "in $0"' step
  "${box[@]}" down
  expect 0 $'in step\nin step'
}
