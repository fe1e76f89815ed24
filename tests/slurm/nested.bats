#!/usr/bin/env bats
# bats file_tags=cgroup
# --container-nested: programs that make containers and sandboxes of their own run in a container. Without the option
# they are refused, in words that docs/troubleshooting.md has.
load helper

tools=$registry/debian:nested

# The box covers parts of the nodes' /proc with devices of its own making, which no node does.
setup() {
  cancel_everything
  moves_of_proc /proc/driver /tmp/nested-driver /proc/devices /tmp/nested-devices
}

# Moves mounts of n1: moves_of_proc FROM TO...
moves_of_proc() {
  local slurmd
  slurmd=$(root pgrep -f 'slurmd .*-N n1( |$)' | head -n 1)
  # shellcheck disable=SC2016
  root nsenter -t "$slurmd" -m bash -euc 'while (( $# )); do
    if mountpoint -q "$1"; then
      if [[ -d $1 ]]; then mkdir -p "$2"; else touch "$2"; fi
      mount --move "$1" "$2"
    fi
    shift 2
  done' bash "$@"
}

teardown() {
  moves_of_proc /tmp/nested-driver /proc/driver /tmp/nested-devices /proc/devices
  restore_site
  cancel_after_failure
}

# One task on n1 in the image with these programs, as alice.
tool() { alice srun -w n1 --container-image="$tools" "$@"; }
nested() { tool --container-nested "$@"; }

# Without the option it is refused in these words, with it it succeeds and prints that: expect_nested WORDS OUTPUT
# CMD...
expect_nested() {
  run tool "${@:3}"
  expect_failure
  [[ $output == *"$1"* ]] || fail "expected: $1" "got: $output"
  run -0 nested "${@:3}"
  expect_output_like "$2"
}

@test "unshare -Ur: a user namespace with mounts and another /proc" {
  expect_nested 'unshare: unshare failed: Operation not permitted' '^0 of 0$' unshare -Ur sh -c 'echo $(id -u) of 0'
  expect_nested 'unshare: unshare failed: Operation not permitted' '^1 within$' \
    unshare -Urmpf --mount-proc sh -c 'mount -t tmpfs none /mnt && touch /mnt/x && echo "$$ within"'
}

@test "bwrap: a sandbox with a /proc and processes of its own" {
  expect_nested 'bwrap: No permissions to create new namespace' '^bwrap [2-5] tmpfs$' \
    bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent \
    sh -c 'echo $(cat /proc/1/comm) $(ls -d /proc/[0-9]* | wc -l) $(stat -f -c %T /tmp)'
}

@test "buildah: what it says without the option, and a build with it" {
  run tool buildah info
  expect_failure
  expect_output_like 'Error during unshare\(CLONE_NEWUSER\): Operation not permitted'
  run -0 nested --container-remap-root unshare -Ur sh -euc 'mkdir /tmp/a; cd /tmp/a
    printf "FROM scratch\nCOPY Dockerfile /\n" > Dockerfile
    export BUILDAH_ISOLATION=chroot; buildah --storage-driver=vfs bud -q -t built . > /dev/null
    buildah --storage-driver=vfs images -n'
  expect_output_like '^localhost/built '
}

@test "squashfuse: a file system of /dev/fuse in a namespace of its own" {
  local script='mkdir -p /tmp/in /tmp/at && echo inside > /tmp/in/file &&
    mksquashfs /tmp/in /tmp/image -quiet -no-progress > /dev/null &&
    unshare -Urm sh -c "squashfuse /tmp/image /tmp/at && cat /tmp/at/file"'
  expect_nested 'unshare: unshare failed: Operation not permitted' '^inside$' sh -c "$script"
  # What asks fusermount3, which would have to be setuid root, is refused with the option too.
  run nested sh -c 'mkdir -p /tmp/in /tmp/at && mksquashfs /tmp/in /tmp/image -quiet -no-progress > /dev/null &&
    squashfuse /tmp/image /tmp/at'
  expect_failure
}

@test "berth: a container in a container, as the user and as root inside" {
  local mounts=/usr/bin/berth:/usr/bin/berth:ro,/home/alice/inner.sqsh:/inner.sqsh:ro
  alice berth import --force -o inner.sqsh "$image"
  run tool --container-mounts="$mounts" berth run /inner.sqsh only-in-image
  expect_failure
  expect_output_like 'berth: creating a user namespace: Operation not permitted'
  for options in '' --container-remap-root; do
    # shellcheck disable=SC2086
    run nested $options --container-mounts="$mounts" sh -c 'berth run /inner.sqsh only-in-image &&
      berth run --root --pid --nested /inner.sqsh unshare -Ur id -u'
    expect_status 0
    expect_equal "$(grep -v '^berth: ' <<< "$output")" $'only in the image\n0'
  done
  expect_no_leftovers
  in_home 'rm -f inner.sqsh'
}

@test "what a nested container leaves running ends with the step" {
  run -0 nested sh -c 'unshare -Urpf setsid -f sleep 602
    bwrap --ro-bind / / --unshare-pid setsid -f sleep 602; echo ended'
  expect_equal "$output" ended
  within 10 no_sleeper
  expect_no_leftovers
}
no_sleeper() { ! root pgrep -f 'sleep 602$'; }

@test "site: never is one line, always is for all, and a site that has locked the filter is asked first" {
  with_site_lines '[security]' 'nested = "never"'
  run nested true
  expect_failure
  expect_one_error_line
  expect_output_like 'user namespaces in the container: .*berth.conf:[0-9]+: security.nested forbids them'
  restore_site
  with_site_lines '[security]' 'nested = "always"'
  run -0 tool unshare -Ur id -u
  expect_equal "$output" 0
  run tool --no-container-nested unshare -Ur id -u
  expect_failure
  restore_site
  with_site_lines '[policy]' 'locked = "security"'
  run nested true
  expect_failure
  expect_one_error_line
  expect_output_like 'policy.locked has security.seccomp; the site allows them by security.nested = "on request"'
}

@test "only the user and the site can ask: a variable does, an image's does not" {
  run -0 in_home "BERTH_CONTAINER_NESTED=1 srun -w n1 --container-image=$tools unshare -Ur id -u"
  expect_equal "$output" 0
  run -0 alice bash -c "export BERTH_SECURITY_NESTED=always; srun -w n1 --container-image=$tools true 2>&1 || true"
  expect_output_like 'security.nested is locked'
  in_home "mkdir -p asks/etc && berth run $tools tar -C / -cf - usr bin lib lib64 sbin 2> /dev/null |
    tar -C asks -xf - &&
    printf 'BERTH_CONTAINER_NESTED=1\nBERTH_SECURITY_SECCOMP=off\nOTHER=1\n' > asks/etc/environment &&
    mksquashfs asks asks.sqsh -quiet -no-progress -noappend > /dev/null; rm -rf asks"
  run alice srun -w n1 --container-image=./asks.sqsh \
    sh -c 'env | grep -E "^(BERTH_CONTAINER_NESTED|BERTH_SEC|OTHER)"; unshare -Ur id'
  expect_failure
  expect_output_like '^OTHER=1'
  [[ $output != *BERTH_* ]] || fail "$output"
  in_home 'rm -f asks.sqsh'
}

@test "a named container keeps it, and one that runs without it is not joined with it" {
  run -0 alice berth run --nested --name nested "$tools" unshare -Ur id -u
  run -0 alice berth run --name nested "$tools" unshare -Ur id -u
  expect_equal "${lines[-1]}" 0
  alice berth rm nested
  in_home 'rm -f started'
  alice srun -w n1 --container-name=plain --container-image="$tools" --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 600' > /dev/null 2>&1 3>&- &
  wait_until 20 alice test -e started
  run alice srun -w n1 --container-name=plain --container-nested true
  expect_failure
  expect_output_like 'joining container plain: it runs already and is not started with --nested'
  cancel_everything
  alice srun -w n1 berth rm plain
}

@test "a directory of the image is not renamed, and mv copies it" {
  run contained perl -e 'rename("/usr/share/perl5", "/usr/share/other") or print "$!\n"'
  expect_output_like 'Invalid cross-device link'
  run -0 contained \
    sh -c 'mv /usr/share/perl5 /usr/share/other && test -d /usr/share/other && ! test -e /usr/share/perl5'
}
