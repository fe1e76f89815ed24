# What every file of this folder uses: people, the image, the registry's log, the nodes' state; loaded by `load helper`.
# shellcheck shell=bash disable=SC2034,SC2154

repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
box=$repo/scripts/slurm-in-a-box
state=${BERTH_BOX_DIR:-/var/tmp/berth-box}
registry=127.0.0.1:${BERTH_BOX_REGISTRY_PORT:-5000}
image=$registry/debian:12
# A registry with faults, while start_faulty lasts.
faulty=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 999))
bats_require_minimum_version 1.5.0

# How much longer than on an idle machine a test waits for something before it gives up. What is asserted of times is
# the same everywhere.
slowness=${BERTH_TEST_SLOWNESS:-1}
# As `sbatch --wait`, and sooner; in the box.
sbatch_wait=$state/lib/sbatch_wait.sh

# As `slurm-in-a-box run -u USER`, which takes four times as long.
alice() { "$state/lib/enter_box" login "$state" alice '' "$@"; }
bob() { "$state/lib/enter_box" login "$state" bob '' "$@"; }
root() { "$state/lib/enter_box" login "$state" root '' "$@"; }

# As alice, from a shell in her home: in_home 'echo hi > x; srun ... cat x'.
in_home() { alice bash -c "$1"; }

# The same with a /proc of which nothing is covered, as on a node; here what is covered of the machine's may keep
# processes of its own from a container.
with_proc() {
  root unshare --mount --propagation private bash -c 'mount -t proc proc /proc && exec setpriv --reuid alice \
    --regid alice --init-groups env HOME=/home/alice USER=alice LOGNAME=alice bash -c "$1"' bash "$1"
}

# One task on n1 in the test image, as alice. Options of srun go before the command as usual.
contained() { alice srun -w n1 --container-image="$image" "$@"; }

fail() {
  printf '%s\n' "$@" >&2
  return 1
}

# Prints what a failed comparison was about; bats shows it with the failing test.
expect_equal() {
  [[ $1 == "$2" ]] || fail "expected: $2" "got:      $1"
}

expect_status() {
  (( status == $1 )) || fail "expected exit code $1, got $status; output:" "$output"
}

expect_failure() {
  (( status != 0 )) || fail "expected a failure; output:" "$output"
}

expect_output_like() {
  [[ $output =~ $1 ]] || fail "no match for: $1" "output: $output"
}

# A user's mistake is told in one line of Berth's own; Slurm's lines about the failed task follow and are not counted.
expect_one_error_line() {
  local lines
  lines=$(grep -c 'berth: ' <<< "$output" || true)
  (( lines == 1 )) || fail "expected one line of berth's, got $lines:" "$output"
}

# What takes over a second is told of, on a busy machine also what is short elsewhere. `run` leaves these lines out,
# unless it is called as `progress=shown run`. With srun's --label they begin with the task's number.
progress_line='^( *[0-9]+: )?berth: (n[0-9]+: )?((pulling|trying again in|waiting for (process|another process)|'
progress_line+='a read of the image) .*|.*: [0-9]+ (s|min [0-9]+ s) so far.*|.*[0-9] [kMGT]?B/s.*)$'
# What Slurm says when a node has not yet heard of the end of its last job, which a busy machine makes longer.
slurm_waits='^((srun|salloc): (job [0-9]+ queued and waiting for resources|job [0-9]+ has been allocated resources|'
slurm_waits+='Pending job allocation [0-9]+)|srun: (Job [0-9]+ step creation temporarily disabled, retrying .*|'
slurm_waits+='Step created for (job|StepId=).*))$'
# Without either: without_progress < FILE.
without_progress() { grep -vE "$progress_line|$slurm_waits" || true; }

no_node_is_completing() { ! root sinfo --noheader --Node --format=%T | grep -q '^completing'; }

# Every node is idle. A job's nodes are `completing` for a moment after its last process is gone, until slurmctld has
# heard it of each of them; a node that was drained or is down stays so.
expect_nodes_up() {
  wait_until 10 no_node_is_completing || return 1
  run "$box" status
  (( status == 0 )) || fail "the nodes are not idle:" "$output" "$(root sinfo --list-reasons)" "$(what_lives)"
}

# What the registry's access log got since `mark_log`: log_since METHOD PATH_REGEX prints the lines.
mark_log() {
  settle_log
  log_mark=$(wc -l < "$state/log/registry.log")
}

log_since() {
  settle_log || return 1
  tail -n "+$((log_mark + 1))" "$state/log/registry.log" | grep -v /settle- | grep -E "\"$1 $2" || true
}

# The registry writes a request's line after it has answered, while the next ones are served. The log has settled when
# nothing has come between the lines of two requests of our own.
settle_log() {
  local log=$state/log/registry.log mark=settle-$BASHPID-$RANDOM number before
  for number in $(seq 1000); do
    before=$(wc -l < "$log")
    curl -s -o /dev/null "http://$registry/$mark-$number" || fail "the registry does not answer" || return 1
    wait_until 20 grep -q "/$mark-$number " "$log" || return 1
    (( number == 1 || $(wc -l < "$log") != before + 1 )) || return 0
  done
  fail "the registry's log does not come to rest"
}

count_since() {
  local found
  found=$(log_since "$@") || return 1
  grep -c . <<< "$found" || true
}

# The digests of the layers of a tag, base first.
layer_digests() {
  curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$registry/v2/debian/manifests/$1" |
    jq -r '.layers[].digest'
}

manifest_digest() {
  curl -sfI -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$registry/v2/debian/manifests/$1" |
    tr -d '\r' | sed -n 's/^docker-content-digest: //Ip'
}

# Every store is emptied, so that the next start pulls.
forget_images() {
  root bash -c "rm -rf $state/nodes/*/store/*"
}

# Alice's on the login node: another image's layers would be there already for who pulls.
forget_images_at_login() { in_home 'berth images --json | jq -r ".images[].digest" | xargs -r berth rmi' > /dev/null; }

# What is published in the stores of the nodes.
published() {
  (cd "$state/nodes" && find . -path '*/tmp/*' -prune -o \( -path '*/layers/*' -o -path '*/images/*' \
    -o -path '*/refs/*' \) -print | sort)
}

# Half-made objects in the stores of the nodes.
temporary_files() {
  (cd "$state/nodes" && find . -path '*/tmp/*')
}

# /proc of the box's PID namespace, seen from outside: it has the box's processes, in whatever namespaces below, and no
# others. Their numbers are those that `kill` has to be given inside the box.
box_proc() {
  local init
  read -r init _ < "$state/init"
  echo "/proc/$init/root/proc"
}

box_processes() {
  local folder
  for folder in "$(box_proc)"/[0-9]*; do echo "${folder##*/}"; done
}

# Those whose program is one of Berth's.
berth_processes() {
  find "$(box_proc)"/[0-9]*/exe -prune \( -lname '*/berth' -o -lname '*/berth-pull' -o -lname '*/berth *' \
    -o -lname '*/berth-pull *' \) \
    -printf '%h\n' 2> /dev/null | sed 's|.*/||'
}

# slurmstepd of the only step on a node; the extern and batch steps have none here.
stepd_pid() {
  root pgrep -f 'slurmstepd: \[' | head -n 1
}

# As root of the box, all of them: kill_9 PID... What is stopped cannot end by itself as soon as another one is gone.
# The one that reads ahead may have ended since they were listed; all of them have not.
kill_9() {
  signal_all STOP "$@"
  signal_all KILL "$@"
}

# signal_all SIGNAL PROCESS...: fails where none of them is there.
signal_all() {
  # shellcheck disable=SC2016
  root bash -c 'some=1; for process in "${@:2}"; do kill -"$1" "$process" 2> /dev/null && some=0; done; exit "$some"' \
    bash "$@"
}

# As root of the box, what commands there list by process ID, also what begins or ends meanwhile: kill_9_all COMMANDS.
# Fails when there was none.
kill_9_all() {
  # shellcheck disable=SC2016
  root bash -c 'declare -A stopped=()
    another=1
    while ((another)); do
      another=0
      for pid in $(eval "$1"); do
        [[ -z ${stopped[$pid]:-} ]] && kill -STOP "$pid" 2> /dev/null || continue
        stopped[$pid]=1 another=1
      done
    done
    kill -9 "${!stopped[@]}"' bash "$1"
}

# The FUSE mounts that a namespace of the box still has.
fuse_mounts() {
  cat "$(box_proc)"/[0-9]*/mountinfo 2> /dev/null | grep -E ' - fuse[^c]' || true
}

# The cgroups that Slurm and Berth have for jobs in the box; leaves are Berth's. In the other hierarchies of version 1
# Slurm leaves some of its own behind.
job_groups() {
  local groups
  groups=$(dirname "$(box_proc)")/sys/fs/cgroup
  [[ ! -d $groups/freezer ]] || groups+=/freezer
  find "$groups" -mindepth 2 -maxdepth 7 -type d -regex '.*/\(\(job\|step\|berth\)_[^/]*\|berth\)' -printf '%P\n' \
    2> /dev/null | sort
}

# Slurm itself leaves those of a slurmstepd that was killed, which other tests do.
remember_job_groups() { groups_before=$(job_groups); }
expect_no_new_job_groups() { expect_equal "$(comm -13 <(echo "$groups_before") <(job_groups))" ""; }

# The sockets by which steps are joined; each node has a /run/berth of its own.
step_sockets() {
  local pid
  for pid in $(root pgrep -x slurmd); do
    find "$(box_proc)/$pid/root/run/berth" -path '*/steps/*' -type s -printf '%P\n' 2> /dev/null || true
  done
}

# What a step may leave behind: nothing at all. With leaves_may_stay=1 the empty cgroups of its helper may stay: when
# slurmstepd was killed, the job's epilog removes them.
leftovers() {
  berth_processes | sed 's/^/process /'
  fuse_mounts | sed 's/^/mount /'
  [[ -n ${leaves_may_stay:-} ]] || job_groups | sed -n 's/.*\/berth\(_[^/]*\)\?$/leaf &/p'
  temporary_files | sed 's/^/file /'
  step_sockets | sed 's/^/socket /'
}

# What of the box still lives, and what it waits for: a leftover that is seen once in a hundred runs has to tell by
# itself what it was.
what_lives() {
  root squeue --noheader --format='job %A %T %N'
  # shellcheck disable=SC2016
  root bash -c 'for pid in $(ps -e -o pid=); do
    ps -o pid=,ppid=,stat=,etimes=,wchan:24=,args= -p "$pid" |
      grep -vE "munged|slurmctld|slurmd( |$)|docker-registry" || continue
    head -qn 2 "/proc/$pid/task/"*/stack 2> /dev/null | sed "s/^.* /    /"
  done'
}

# While slurmd ends a job it waits before it sends SIGKILL (KillWait, 5 s) to a task that missed scancel's SIGTERM.
# Until then the task lives, and its container.
a_task_lives() {
  local stepds
  stepds=$(root pgrep -d , -f 'slurmstepd: \[') && root pgrep -P "$stepds" > /dev/null
}

# What a container left behind is gone within 5 s, or 4 s later where Slurm has not yet killed a task; on a slow machine
# it takes longer.
expect_no_leftovers() {
  local since=$SECONDS left
  until left=$(leftovers) && [[ -z $left ]]; do
    if (( SECONDS >= since + 5 * slowness )) && { (( SECONDS >= since + 9 * slowness )) || ! a_task_lives; }; then
      fail "left after $((SECONDS - since)) s:" "$left" "$(what_lives)" || return 1
    fi
    sleep 0.2
  done
}

# As bats has it, without these lines.
eval "$(declare -f run | sed '1s/^run/bats_run/')"
run() {
  local run_code=0 noise=$slurm_waits
  [[ ${progress:-} == shown ]] || noise+="|$progress_line"
  bats_run "$@" || run_code=$?
  if grep -qE "$noise" <<< "$output"$'\n'"${stderr:-}"; then
    output=$(grep -vE "$noise" <<< "$output" || true)
    mapfile -t lines < <([[ -z $output ]] || printf '%s\n' "$output")
    stderr=$(grep -vE "$noise" <<< "${stderr:-}" || true)
  fi
  return "$run_code"
}

# Waits until a command succeeds, longer on a slow machine: wait_until SECONDS CMD...
wait_until() { within $(($1 * slowness)) "${@:2}"; }

# A command succeeds within so many seconds, however slow the machine is: within SECONDS CMD...
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    (( SECONDS < deadline )) || fail "did not happen in time: $*" || return 1
    sleep 0.1
  done
}

no_jobs() {
  [[ -z $(root squeue --noheader) ]]
}

# What slurmctld will call the next job: it is the same after a submission that was refused.
next_job() { root scontrol show config | sed -n 's/^NEXT_JOB_ID *= *//p' | grep .; }

cancel_everything() {
  root scancel --state=RUNNING,PENDING 2> /dev/null || true
  root scancel -u alice
  root scancel -u bob
  wait_until 20 no_jobs
}

# What a failed test has started in the background would take the processors that the following ones wait for.
cancel_after_failure() { [[ -n ${BATS_TEST_COMPLETED:-} ]] || cancel_everything; }

teardown() { cancel_after_failure; }

# The step fails with one line that matches, and neither the stores nor the nodes notice: expect_rejected IMAGE REGEX
expect_rejected() {
  local before
  before=$(published)
  run alice srun -w n1 --container-image="$1" true
  expect_failure
  expect_one_error_line
  expect_output_like "$2"
  expect_equal "$(published)" "$before"
  expect_equal "$(temporary_files)" ""
  expect_nodes_up
}

# What Ctrl-C twice is to an srun whose output is in a file: interrupt_twice PID FILE. Two that are pending at once
# count as one, so the second follows srun's word of the first; one that comes later than a second is a first one.
interrupt_twice() {
  local said
  for _ in {1..10}; do
    said=$(grep -c 'one more within' "$2" || true)
    kill -INT "$1" || return 0
    wait_until 10 has_heard_interrupt "$2" "$said"
    kill -INT "$1" || return 0
    ! wait_until 1 grep -q 'sending Ctrl-C' "$2" || return 0
  done
  return 1
}
has_heard_interrupt() { (( $(grep -c 'one more within' "$1") > $2 )) || grep -q 'sending Ctrl-C' "$1"; }

# Adds lines to the site file of all nodes until restore_site.
with_site_lines() {
  root bash -c \
    '[[ -e /etc/berth/berth.conf.kept ]] || cp /etc/berth/berth.conf /etc/berth/berth.conf.kept;
      printf "%s\n" "$@" >> /etc/berth/berth.conf' bash \
    "$@"
}

restore_site() {
  root bash -c '[[ ! -e /etc/berth/berth.conf.kept ]] || mv /etc/berth/berth.conf.kept /etc/berth/berth.conf'
}

# For setup_file and teardown_file.
start_faulty() {
  python3 -B "$repo/tests/registry/faulty.py" "${faulty##*:}" 3>&- > "$BATS_FILE_TMPDIR/faulty.log" 2>&1 &
  echo $! > "$BATS_FILE_TMPDIR/faulty.pid"
  wait_until 60 curl -s -o /dev/null "http://$faulty/v2/"
  kill -0 "$(cat "$BATS_FILE_TMPDIR/faulty.pid")"
}

# How often it was asked for what matches: faulty_count REGEX. It writes a request's line before it answers.
faulty_count() {
  grep -cE "$1" "$BATS_FILE_TMPDIR/faulty.log" || true
}

# The next one has the same port.
stop_faulty() {
  local pid
  pid=$(cat "$BATS_FILE_TMPDIR/faulty.pid")
  kill "$pid"
  wait_until 10 eval "! kill -0 $pid"
}

# A real podman, which speaks docker's interface too, with the image localhost/bare and a socket that alice may use:
# $podman_socket. For setup_file and teardown_file.
podman_socket=$state/podman/podman/podman.sock
start_podman() {
  # shellcheck disable=SC2016
  root bash -euc 'mkdir -p "$1/podman"
    podman=(podman --root "$1/images" --runroot "$1/run" --storage-driver vfs --cgroup-manager cgroupfs
      --events-backend none)
    "${podman[@]}" pull --quiet --tls-verify=false "$2"
    "${podman[@]}" tag "$2" localhost/bare
    setsid "${podman[@]}" system service --time=0 "unix://$3" > "$1/log" 2>&1 < /dev/null &' \
    bash "$state/podman" "$registry/debian:bare" "$podman_socket" 3>&-
  wait_until 60 root test -S "$podman_socket"
  root chmod 666 "$podman_socket"
}

stop_podman() {
  root pkill -f 'podman .*system service' || true
  root rm -rf "$state/podman"
}

# Terminals of a node as distributions make them, for the group tty: an sshd without root's rights cannot give them to
# it. A machine that is a container itself may have others. Until terminals_as_before NODE.
terminals_of_distributions() {
  local slurmd
  slurmd=$(root pgrep -f "slurmd .*-N $1( |\$)" | head -n 1)
  root nsenter -t "$slurmd" -m mount -t devpts -o newinstance,gid=5,mode=620,ptmxmode=666 berth-test /dev/pts
}
terminals_as_before() {
  local slurmd
  slurmd=$(root pgrep -f "slurmd .*-N $1( |\$)" | head -n 1)
  ! root nsenter -t "$slurmd" -m grep -q '^berth-test ' /proc/mounts ||
    root nsenter -t "$slurmd" -m umount /dev/pts
}

# A stand-in for Pyxis' plugin, which registers its options.
pyxis=$state/lib/like-pyxis/spank_pyxis.so
make_like_pyxis() {
  local slurm headers=()
  slurm=$(cat "$state/slurm")
  [[ -z $slurm ]] || headers=(-I "$slurm/include")
  mkdir -p "${pyxis%/*}"
  cc -shared -fPIC "${headers[@]}" -o "$pyxis" "$BATS_TEST_DIRNAME/like_pyxis.c"
}
