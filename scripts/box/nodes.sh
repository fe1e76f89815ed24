#!/bin/bash
# Starts or restarts the box's slurmd, each in a mount and UTS namespace below the box's: nodes.sh start|restart N.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=scripts/box/common.sh
source "$here/common.sh"

stop_node() {
  local pid
  pid=$(cat "/run/slurmd.$1.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  die "slurmd of $1 (pid $pid) did not stop in 10 s"
}

# own_cgroup NODE CMD...: with version 2 of cgroups alone slurmd moves all processes of its group away, and fails when
# one of them ends meanwhile.
own_cgroup() (
  [[ ! -e $unified/cgroup.controllers ]] || echo 0 > "$(mktemp -d "$unified/slurmd-$1.XXXX")/cgroup.procs"
  shift
  exec "$@"
)

# What AddressSanitizer is told in a node's processes, which have its library as their first one. slurmstepd, which ends
# with its step, frees little. The helper of a step has no such variables, and tells its reports by
# tests/fixtures/sanitizer_options.cc.
sanitizer_settings() {
  [[ -d $state/lib/sanitized ]] || return 0
  echo "LD_PRELOAD=$state/lib/sanitized/libasan.so"
  echo "ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:log_path=$state/log/sanitizer/report"
  echo "UBSAN_OPTIONS=print_stacktrace=1:log_path=$state/log/sanitizer/report"
}

# The release that a node begins with: its own files, which tests replace while it runs.
set_release() {
  [[ -d $state/lib/other ]] || return 0
  local release=own
  [[ $1 == n1 ]] || release=other
  mkdir -p "$state/nodes/$1/release"
  cp --remove-destination "$state/lib/$release/"* "$state/nodes/$1/release/"
}

# The CPU on which new namespaces have the lowest numbers. Slurm mounts those of jobs (job_container/tmpfs,
# namespace/linux) as files; the kernel allows that for namespaces with higher numbers than slurmd's alone, and from
# 6.18 on each CPU counts by itself.
# Empty on kernels that do not tell numbers (NS_GET_MNTNS_ID).
oldest_cpu() {
  local cpu
  for cpu in $(seq 0 $(($(nproc --all) - 1))); do
    taskset --cpu-list "$cpu" unshare --mount python3 -c '
import fcntl, struct, sys
with open("/proc/self/ns/mnt") as file:
    print(*struct.unpack("Q", fcntl.ioctl(file, 0x8008B705, bytes(8))), sys.argv[1])' "$cpu" 2> /dev/null || true
  done | sort -n | sed -n '1s/.* //p'
}

# slurmd starts slurmstepd for its epilog without its own environment, so that a script stands in slurmstepd's place.
write_slurmstepd() {
  [[ -d $state/lib/sanitized ]] || return 0
  printf '#!/bin/sh\nexec env %s /usr/lib/berth-sanitized/slurmstepd "$@"\n' "$*" > "$state/lib/sanitized/slurmstepd"
  chmod 755 "$state/lib/sanitized/slurmstepd"
}

# Node-local folders are the node's own, as on a real cluster, and so is what the plugin mounts in /run; the slurmd of a
# node starts as its service would, without a user's environment. A configuration of a site may add mounts and options
# of slurmd (sites/NAME/node.sh).
start_node() {
  local own=$state/nodes/$1 settings pinned=()
  [[ -z ${cpu:-} ]] || pinned=(taskset --cpu-list "$cpu")
  mkdir -p "$state/spool/$1"
  mapfile -t settings < <(sanitizer_settings)
  set_release "$1"
  write_slurmstepd "${settings[@]}"
  # shellcheck disable=SC2016
  own_cgroup "$1" "${pinned[@]}" env -i PATH="$root_path" unshare --mount --uts --propagation private bash -euc '
    taskset --pid --cpu-list "0-$(($(nproc --all) - 1))" $$ > /dev/null
    mount --bind "$2/store" /var/lib/berth
    mount --bind "$2/munge" /run/munge
    hostname "$1"
    [[ ! -d $2/release ]] || mount --bind "$2/release" /etc/berth-release
    if [[ -d $3 ]]; then
      mount --bind "$3/spank_berth.so" "$(echo /usr/lib/*/slurm-wlm/spank_berth.so)"
      mount --bind "$3/berth" /usr/bin/berth
      mount --bind "$3/berth-pull" /usr/libexec/berth/berth-pull
      stepd=$(command -v slurmstepd)
      mkdir -p /var/lib/berth-sanitizer /usr/lib/berth-sanitized
      touch /usr/lib/berth-sanitized/slurmstepd
      mount --bind "$stepd" /usr/lib/berth-sanitized/slurmstepd
      mount --bind "$3/slurmstepd" "$stepd"
      mount --bind "$4/log/sanitizer" /var/lib/berth-sanitizer
    fi
    options=()
    while read -r name; do
      [[ ! -e $4/lib/sites/$name/node.sh ]] || source "$4/lib/sites/$name/node.sh"
    done < "$4/sites"
    exec env "${@:5}" slurmd -N "$1" "${options[@]}"' bash "$1" "$own" "$state/lib/sanitized" "$state" "${settings[@]}"
}

# A restart comes from outside the box.
[[ ! -e $state/own-cgroups ]] || enter_cgroups
cpu=$(if grep -qxE 'tmpfs|namespaces' "$state/sites"; then oldest_cpu; fi)
for node in $(node_names "$2"); do
  [[ $1 == start ]] || stop_node "$node"
  start_node "$node"
done
