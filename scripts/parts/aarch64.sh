# shellcheck shell=bash
# Programs of aarch64 on this machine: qemu emulates each program, and the kernel is this machine's.

# Which programs qemu runs: those whose ELF header says 64 bits, little-endian, aarch64 (binfmt_misc(5)).
aarch64_programs=':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:'
aarch64_programs+='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'
aarch64_programs+='/usr/bin/qemu-aarch64-static:F'

# with_aarch64 CMD...: CMD in a user namespace whose programs of aarch64 the kernel has run by qemu, and nobody else's
# (Linux 6.7). All users and groups are in it, since packages have files of many.
# shellcheck disable=SC2016
with_aarch64() {
  local child code=0
  # An exec before the users are there would cost its capabilities.
  unshare --user bash -c 'until [[ $(< /proc/self/gid_map) ]]; do read -rt 0.1 <> <(:) || true; done
    exec unshare --mount --pid --fork --kill-child --mount-proc bash -euc "$@"' bash '
      mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
      printf %s "$1" > /proc/sys/fs/binfmt_misc/register
      exec "${@:2}"' bash "$aarch64_programs" "$@" &
  child=$!
  until [[ ! $(< "/proc/$child/uid_map") ]]; do sleep 0.1; done
  echo '0 0 4294967295' > "/proc/$child/uid_map"
  echo '0 0 4294967295' > "/proc/$child/gid_map"
  wait "$child" || code=$?
  return "$code"
}
