# Where the box keeps its things and how its parts find each other; sourced by slurm-in-a-box and by what runs inside.
# shellcheck shell=bash disable=SC2034

state=${BERTH_BOX_DIR:-/var/tmp/berth-box}
port=${BERTH_BOX_PORT:-16817}
registry_port=${BERTH_BOX_REGISTRY_PORT:-5000}
dbd_port=$((port + 90))
cgroup_name=berth-box-$port

# use_slurm PREFIX: the box runs the Slurm that is installed there, or the distribution's where PREFIX is empty.
use_slurm() {
  slurm=$1
  login_path=${slurm:+$slurm/bin:}/usr/local/bin:/usr/bin:/bin
  root_path=${slurm:+$slurm/sbin:$slurm/bin:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
}
use_slurm "$(cat "$state/slurm" 2> /dev/null || true)"

die() {
  echo "slurm-in-a-box: $*" >&2
  exit 1
}

# With BERTH_BOX_OTHER each node has these files in a folder of its own, to which the installed ones are links.
release_folder=/etc/berth-release
release_files=(berth berth-pull spank_berth.so)

# file_of_release FOLDER FILE: where FILE is, in the folder of a build or below that of an installation.
file_of_release() {
  local path=$1/$2
  [[ -f $path ]] || path=$(find "$1" -type f -name "$2" \( -perm -u+x -o -name '*.so' \) -print -quit)
  [[ $path ]] || die "$1 has no $2: name the folder of a build, or of make install DESTDIR="
  echo "$path"
}

# The names of N nodes: n1 n2 ...
node_names() {
  seq -f 'n%.0f' 1 "$1"
}

# Field 22 of /proc/PID/stat, the start time: with the boot id it tells this process from a later one of the same pid.
# A zombie has ended.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<< "${stat##*) }"
  [[ ${stat[0]} != Z ]] && echo "${stat[19]}"
}

identity() {
  local started
  started=$(start_time "$1") || return 1
  echo "$1 $started $(cat /proc/sys/kernel/random/boot_id)"
}

# Prints the machine's pid of the box's init, which is process 1 inside; fails when there is none.
init_pid() {
  local line pid
  [[ -r $state/init ]] && read -r line < "$state/init" || return 1
  pid=${line%% *}
  [[ $(identity "$pid") == "$line" ]] && echo "$pid"
}

# The mounted hierarchies of cgroups: "TYPE FOLDER OPTIONS" a line.
cgroup_mounts() {
  sed -nE 's/^([^ ]+ ){4}([^ ]+) .* - (cgroup2?) [^ ]+ (.*)$/\3 \2 \4/p' /proc/self/mountinfo
}

# Where version 2 of cgroups is mounted when it is alone.
unified=/sys/fs/cgroup

# Moves this shell into the box's own cgroups: where the box has its view of them, they are the roots. With version 2
# alone it is a group below the root, which has to be without processes so that it can hand on controllers.
enter_cgroups() {
  local procs
  if [[ -e $unified/cgroup.controllers ]]; then
    echo 0 > "$unified/box/cgroup.procs"
    return
  fi
  for procs in /sys/fs/cgroup/*/cgroup.procs; do
    [[ ! -e $procs ]] || echo 0 > "$procs"
  done
}
