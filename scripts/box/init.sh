#!/bin/bash
# Process 1 of the box: takes its own cgroups, makes the mounts, writes the configuration, starts the daemons; then it
# reaps. With it everything ends.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=scripts/box/common.sh
source "$here/common.sh"
# shellcheck source=scripts/box/config.sh
source "$here/config.sh"
# shellcheck source=scripts/box/devices.sh
source "$here/devices.sh"
stage=cgroups
if [[ $1 == rest ]]; then
  stage=rest
  shift
fi
nodes=$1 cgroup=$2 plugin=$3 sites=("${@:4}")

# A caller that waits for the end of its pipes (bats, $(...)) must not wait for the daemons.
close_inherited() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    (( fd <= 2 || fd == 255 )) || eval "exec $fd>&-"
  done
}

# A new group of cpuset has no CPUs and takes no process.
copy_cpuset() {
  local file
  for file in cpuset.cpus cpuset.mems; do
    [[ ! -e $1/$file ]] || cat "${1%/*}/$file" > "$1/$file"
  done
}

# The hierarchies of version 1, and that of version 2 beside them: "TYPE FOLDER NAMES PATH" a line, where NAMES are the
# controllers and PATH is this process's. Where version 2 is alone there are none.
hierarchies() {
  local type folder options names path
  while read -r type folder options; do
    if [[ $type == cgroup2 && $folder != */unified ]]; then return 0; fi
    while IFS=: read -r _ names path; do
      if [[ $type == cgroup2 && -z $names ]] || [[ $type == cgroup && -n $names && ,$options, == *",$names,"* ]]; then
        echo "$type $folder ${names:--} $path"
      fi
    done < "/proc/$BASHPID/cgroup"
  done < <(cgroup_mounts)
}

# unified_controllers FOLDER: a group of version 2 hands on all that it has, as far as it may.
unified_controllers() {
  local name names
  read -ra names < "$1/cgroup.controllers"
  for name in "${names[@]}"; do
    echo "+$name" > "$1/cgroup.subtree_control" || true
  done 2> /dev/null
}

# In a virtual machine that is there for the box alone: version 2 as the machine has it. Slurm 22.05 moves slurmstepd to
# the top of the hierarchy before it removes a step's groups; the top of a namespace of cgroups takes no process.
has_machine_cgroups() { [[ ${BERTH_BOX_CGROUPS:-own} == machine && -e $unified/cgroup.controllers ]]; }

# A group of the box's own in every hierarchy. In a cgroup namespace that is made then, each of them is a root, so that
# the Slurm of another box or of the machine has other groups than this one. Where version 2 is alone the group lies at
# the top: Slurm wants controllers, which a group with processes, like that of a service, cannot hand on.
make_cgroups() {
  local folder path group
  if [[ -e $unified/cgroup.controllers ]]; then
    unified_controllers "$unified"
    mkdir -p "$unified/$cgroup_name"
    echo 0 > "$unified/$cgroup_name/cgroup.procs"
    touch "$state/own-cgroups"
  fi
  while read -r _ folder _ path; do
    group=$folder${path%/}/$cgroup_name
    mkdir -p "$group"
    copy_cpuset "$group"
    echo 0 > "$group/cgroup.procs"
    touch "$state/own-cgroups"
  done < <(hierarchies)
}

# What is mounted there shows the machine's groups; mounted anew it shows those of the namespace.
mount_cgroups() {
  local type folder names
  if [[ -e $unified/cgroup.controllers ]]; then
    if ! has_machine_cgroups; then
      umount "$unified"
      mount -t cgroup2 berth-box "$unified"
    fi
    # systemd has the second one, in which older Slurms make theirs.
    mkdir -p "$unified/box" "$unified/system.slice"
    enter_cgroups
    unified_controllers "$unified"
    unified_controllers "$unified/system.slice"
  fi
  while read -r type folder names _; do
    [[ $type ]] || continue
    umount "$folder"
    if [[ $type == cgroup ]]; then
      mount -t cgroup -o "$names" berth-box "$folder"
    else
      mount -t cgroup2 berth-box "$folder"
    fi
  done <<< "$(hierarchies)"
}

# The folders where programs of different boxes would find each other's files.
private_tmp() {
  mount --bind "$state" /mnt
  mount --bind "$state/tmp/login" /tmp
  mount --bind /mnt/tmp/login-var /var/tmp
  mkdir -p "$state"
  mount --move /mnt "$state"
}

# The box writes into its own layer above the host's folder.
private_copy() {
  local upper=$state/overlay$1/upper work=$state/overlay$1/work
  mkdir -p "$upper" "$work"
  chmod 755 "$upper"
  mount -t overlay -o "lowerdir=$1,upperdir=$upper,workdir=$work" berth-box "$1"
}

# A Slurm from a prefix is installed as on a site: Berth's plugin goes into its folder of plugins, and of the
# distribution's Slurm there is nothing, so that nobody takes a command or library of another release.
private_slurm() {
  [[ $slurm && $slurm != /usr ]] || return 0
  local file
  case $slurm/ in
    /etc/*|/usr/*|/var/lib/*) ;;
    *) private_copy "$slurm" ;;
  esac
  for file in "$slurm"/bin/* "$slurm"/sbin/*; do rm -f "/usr/bin/${file##*/}" "/usr/sbin/${file##*/}"; done
  rm -rf /usr/lib/*/slurm-wlm /usr/lib/*/libslurm*
}

# One that no driver took, or a cgroup rule for it would touch another device: of 240 to 254, for local use and for
# drivers that have none of their own, or of 300 to 383, which the kernel gives to nobody (its devices.txt).
unused_major() {
  local major
  for major in $(seq 240 254) $(seq 300 383); do
    grep -q "^ *$major " /proc/devices || { echo "$major"; return; }
  done
  die "no free device number for the fake GPUs (majors 240-254 and 300-383 are all taken)"
}

has_own_gpus() { [[ " ${sites[*]} " == *' own-gpus '* ]]; }

private_dev() {
  local dev=$state/dev name major
  mount -t tmpfs -o mode=755 berth-box "$dev"
  cp -ax /dev/. "$dev/"
  rm -f "$dev/fuse"
  mknod -m 666 "$dev/fuse" c 10 229
  if ! has_own_gpus; then
    major=$(unused_major)
    fake_nodes "$dev" "$major"
  fi
  for name in pts mqueue hugepages; do
    ! mountpoint -q "/dev/$name" || mount --bind "/dev/$name" "$dev/$name"
  done
  # As systemd has it.
  if ! mountpoint -q "$dev/mqueue"; then
    mkdir -p "$dev/mqueue"
    mount -t mqueue berth-box "$dev/mqueue"
  fi
  mkdir -p "$dev/shm"
  mount -t tmpfs -o mode=1777 berth-box "$dev/shm"
  mount --move "$dev" /dev
}

mount_all() {
  local folder
  mount_cgroups
  private_tmp
  for folder in /etc /usr /var/lib; do private_copy "$folder"; done
  private_slurm
  cp --remove-destination "$(readlink -f /etc/resolv.conf)" /etc/resolv.conf 2>/dev/null || true
  private_dev
  if ! has_own_gpus; then
    fake_proc "$(stat -c %Hr /dev/nvidia0)"
    fake_libraries
  fi
  mount --bind "$state/home" /home
  # Small, so that a test can fill it.
  mount -t tmpfs -o mode=755,size=64M,nr_inodes=16384 berth-box /run
  mkdir -p /var/lib/berth
  mount --bind "$state/nodes/login/store" /var/lib/berth
}

# Slurm's plugin opens the library by the name that only Debian's development package has.
link_pmix() {
  local library
  library=$(find /usr/lib -path '*/pmix2/lib/libpmix.so.2' | head -n 1)
  [[ -z $library ]] || ln -sf libpmix.so.2 "${library%.2}"
}

# munged of NAME with its own socket in FOLDER; the key is one.
start_munged() {
  install -d -o munge -g munge -m 755 "$2"
  setpriv --reuid munge --regid munge --init-groups munged --log-file="$state/log/munge/$1.log" \
    --seed-file="/var/lib/munge/$1.seed" \
    --socket="$2/munge.socket.2" --pid-file="$2/munged.pid"
}

# One for each node, as on a real cluster. A munged knows the credentials it has seen, and a step's comes to each of its
# nodes: with one for all, every launch left an error in the munge context that the threads of a slurmd share without a
# lock, and two of them freed its text (22.05.8, "double free" in munge_decode).
start_munge() {
  install -d -o munge -g munge -m 700 /var/lib/munge "$state/log/munge"
  start_munged login /run/munge
  local node
  for node in $(node_names "$nodes"); do start_munged "$node" "$state/nodes/$node/munge"; done
}

start_registry() {
  chown docker-registry: "$state/registry"
  setsid setpriv --reuid docker-registry --regid docker-registry --init-groups \
    docker-registry serve /etc/registry.yml < /dev/null > "$state/log/registry.log" 2>&1 &
}

# What a site's configuration needs besides Slurm's usual daemons, before slurmctld.
start_site_daemons() {
  local name
  for name in "${sites[@]}"; do
    [[ ! -e $here/sites/$name/daemons.sh ]] || "$here/sites/$name/daemons.sh"
  done
}

start_slurmctld() {
  install -d -o slurm -g slurm "$state/slurmctld"
  install -o slurm -g slurm -m 644 /dev/null "$state/log/slurmctld.log"
  slurmctld
}

main() {
  hostname box
  mount_all
  link_pmix
  write_config
  (( ! plugin )) || "$here/deploy.sh"
  start_munge
  start_registry
  start_site_daemons
  start_slurmctld
  "$here/nodes.sh" start "$nodes"
  touch "$state/ready"
  reap
}

# Bash waits for all its children, also for those that it has inherited. Without an end: `down` kills it.
reap() {
  trap '' INT TERM HUP
  while :; do
    sleep infinity &
    wait $!
  done
}

case $stage in
  cgroups)
    close_inherited
    if has_machine_cgroups; then
      touch "$state/own-cgroups"
      exec "$0" rest "$@"
    fi
    make_cgroups
    exec unshare --cgroup -- "$0" rest "$@" ;;
  rest) main ;;
esac
