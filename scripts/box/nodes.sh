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

# Node-local folders are the node's own, as on a real cluster, and so is what the plugin mounts in /run; the slurmd of a
# node starts as its service would, without a user's environment.
start_node() {
  local own=$state/nodes/$1
  mkdir -p "$state/spool/$1"
  # shellcheck disable=SC2016
  own_cgroup "$1" env -i PATH="$root_path" unshare --mount --uts --propagation private bash -euc '
    mount --bind "$2/store" /var/lib/berth
    mount --bind "$2/munge" /run/munge
    hostname "$1"
    exec slurmd -N "$1"' bash "$1" "$own"
}

# A restart comes from outside the box.
[[ ! -e $state/own-cgroups ]] || enter_cgroups
for node in $(node_names "$2"); do
  [[ $1 == start ]] || stop_node "$node"
  start_node "$node"
done
