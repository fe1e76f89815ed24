#!/usr/bin/env bats
# Processes of one step that call apptainer, singularity with equal images and options: the container that they share.
# shellcheck disable=SC2016,SC2154
load helper

setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  gcc -O1 -Wall -Wextra -static "$repo/tests/slurm/peer_memory.c" -o "$BATS_FILE_TMPDIR/peer-memory"
  install -m 755 "$BATS_FILE_TMPDIR/peer-memory" "$state/home/alice/peer-memory"
  in_home 'rm -rf joint; mkdir -p joint/sub joint/meet; cd joint
    apptainer --quiet pull --name d.sif docker://'"$image" > "$BATS_FILE_TMPDIR/pull" 2>&1
  # meet NAME COUNT: waits until COUNT processes have come to the place NAME; a minute at most.
  in_home 'cat > joint/meet.sh; chmod +x joint/meet.sh' <<'END'
#!/bin/sh
mkdir -p "/home/alice/joint/meet/$1"
: > "/home/alice/joint/meet/$1/${3:-$SLURM_PROCID}"
i=0
until [ "$(ls "/home/alice/joint/meet/$1" | wc -l)" -ge "$2" ]; do
  i=$((i + 1))
  [ "$i" -lt 1200 ] || { echo "$1: not all have come"; exit 9; }
  sleep 0.05
done
END
}

setup() { in_home 'rm -rf joint/meet; mkdir joint/meet'; }

teardown() {
  restore_site
  # What a failed test leaves waits for the others.
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || root scancel --user alice
  [[ -z ${step_pid:-} ]] || wait "$step_pid" || true
}

teardown_file() {
  in_home 'rm -rf joint peer-memory' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

joint() { in_home "cd joint; $1"; }

# As often as the kernel says which file system the root is, so many containers there are: containers_in OUTPUT, whose
# lines begin with "mount namespace, user namespace, device of the root".
containers_in() { grep '^mnt:' <<< "$1" | cut -d' ' -f1-3 | sort -u | wc -l; }
look='echo "$(readlink /proc/self/ns/mnt) $(readlink /proc/self/ns/user) $(stat -c %d /)'

# A step of eight tasks on n1: eight 'FLAGS' 'COMMAND IN THE CONTAINER'.
eight() { joint "timeout $((120 * slowness)) srun -w n1 -n8 -O ${3:-apptainer} exec $1 d.sif sh -c '$2'"; }

# Sockets of the containers of steps that are still there.
joint_sockets() { root find /var/lib/berth -path '*.containers/steps/*' -type s 2> /dev/null || true; }

# Of the processes of Berth those that serve a container: they are in a user namespace of their own.
helpers() {
  local pid own
  own=$(root readlink /proc/1/ns/user)
  for pid in $(berth_processes); do
    [[ $(root readlink "/proc/$pid/ns/user" 2> /dev/null || echo "$own") == "$own" ]] || echo "$pid"
  done
}

# The others: one for each command.
members() { comm -23 <(berth_processes | sort) <(helpers | sort); }

all_have_come() { (( $(joint "ls meet/$1 2> /dev/null | wc -l") >= $2 )); }

# A step of eight in the background, whose tasks wait in the container until the place "go" is there:
# begin_step OUTPUT 'FLAGS' 'COMMAND AFTER THAT'.
begin_step() {
  eight "$2" './meet.sh in 8 || exit; until [ -e meet/go ]; do sleep 0.1; done; '"$3" > "$1" 2> "$1.errors" &
  step_pid=$!
  wait_until $((60 * slowness)) all_have_come in 8
}

@test "eight tasks of a step are in one container, with one file server" {
  begin_step "$BATS_TEST_TMPDIR/out" '' "$look \$SLURM_PROCID\""
  expect_equal "$(helpers | wc -l)" 1
  expect_equal "$(members | wc -l)" 8
  joint 'mkdir meet/go'
  wait "$step_pid"
  expect_equal "$(containers_in "$(< "$BATS_TEST_TMPDIR/out")")" 1
  expect_equal "$(cut -d' ' -f4 "$BATS_TEST_TMPDIR/out" | sort | paste -sd ' ')" '0 1 2 3 4 5 6 7'
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/out.errors")" ""
  expect_no_leftovers
  expect_equal "$(joint_sockets)" ""
}

@test "they read each other's memory, as MPI does within a node" {
  run -0 --separate-stderr eight '' '/home/alice/peer-memory meet $SLURM_PROCID 8'
  expect_equal "$(sort -n <<< "$output" | paste -sd,)" \
    '0 read 1,1 read 2,2 read 3,3 read 4,4 read 5,5 read 6,6 read 7,7 read 0'
  # In a container for each they cannot, so that the test tells.
  in_home 'rm -rf joint/meet; mkdir joint/meet'
  run --separate-stderr eight --writable-tmpfs '/home/alice/peer-memory meet $SLURM_PROCID 8'
  expect_output_like '0 cannot read 1: Operation not permitted'
}

@test "fifty times eight that begin at once are in one container each time" {
  joint 'cat > rounds.sh; chmod +x rounds.sh' <<'END'
#!/bin/bash
for i in $(seq 50); do
  ./meet.sh "out.$i" 8
  apptainer exec d.sif sh -c './meet.sh "in.$1" 8 && echo "$1 $(readlink /proc/self/ns/user)"' sh "$i" || exit
done
END
  run -0 --separate-stderr joint "timeout $((300 * slowness)) srun -w n1 -n8 -O ./rounds.sh"
  expect_equal "$(wc -l <<< "$output")" 400
  expect_equal "$(sort -u <<< "$output" | wc -l)" 50
  expect_equal "$(without_progress <<< "$stderr")" ""
  expect_no_leftovers
  expect_equal "$(joint_sockets)" ""
}

@test "fifty times eight that come and go as they like all run" {
  run -0 --separate-stderr joint "timeout $((300 * slowness)) srun -w n1 -n8 -O sh -c '
    for i in \$(seq 50); do apptainer exec d.sif echo yes || exit; done'"
  expect_equal "$(grep -c '^yes$' <<< "$output")" 400
  expect_equal "$(without_progress <<< "$stderr")" ""
  expect_no_leftovers
}

@test "the container lives on when the first has left it, until the last has" {
  run -0 --separate-stderr joint "timeout $((60 * slowness)) srun -w n1 -n4 -O sh -c '
    [ \$SLURM_PROCID = 0 ] || ./meet.sh first 1 0 > /dev/null
    apptainer exec d.sif sh -c \"
      [ \\\$SLURM_PROCID != 0 ] || ./meet.sh first 1 0
      ./meet.sh in 4
      [ \\\$SLURM_PROCID != 0 ] || exit
      until [ -e meet/gone ]; do sleep 0.1; done
      cat /etc/debian_version > /dev/null && readlink /proc/self/ns/user\"
    [ \$SLURM_PROCID != 0 ] || mkdir meet/gone'"
  expect_equal "$(wc -l <<< "$output")" 3
  expect_equal "$(sort -u <<< "$output" | wc -l)" 1
  expect_no_leftovers
}

@test "a killed member, the one that made the container too, takes its own command with it" {
  begin_step "$BATS_TEST_TMPDIR/out" '' "$look\""
  local maker
  maker=$(root ps -o ppid= -p "$(helpers)" | tr -d ' ')
  members | grep -qx "$maker" || fail "the maker is $maker, the members are:" "$(members)"
  kill_9 "$maker"
  joint 'mkdir meet/go'
  wait "$step_pid" || true
  expect_equal "$(wc -l < "$BATS_TEST_TMPDIR/out")" 7
  expect_equal "$(containers_in "$(< "$BATS_TEST_TMPDIR/out")")" 1
  expect_no_leftovers
  expect_equal "$(joint_sockets)" ""
}

@test "a killed helper is told of in one line by each, and the next start makes another container" {
  begin_step "$BATS_TEST_TMPDIR/out" '' 'true'
  kill_9 "$(helpers)"
  wait "$step_pid" || true
  expect_equal "$(grep -c '^FATAL:   the container has ended: ' "$BATS_TEST_TMPDIR/out.errors")" 8
  expect_no_leftovers
  # What it left is taken away by the next one.
  run -0 eight '' 'echo yes'
  expect_equal "$(grep -c '^yes$' <<< "$output")" 8
  expect_equal "$(joint_sockets)" ""
}

@test "a signal to the step is for its tasks, whose files stay while they end" {
  eight '' 'trap "sleep 0.5; cat /etc/debian_version > /dev/null && echo got it; exit 0" TERM; ./meet.sh in 8
    until [ -e meet/go ]; do sleep 0.1; done' > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/errors" &
  step_pid=$!
  wait_until $((60 * slowness)) all_have_come in 8
  root scancel --signal TERM --user alice
  wait "$step_pid" || true
  expect_equal "$(grep -c '^got it$' "$BATS_TEST_TMPDIR/out")" 8
  expect_equal "$(grep -c '^FATAL' "$BATS_TEST_TMPDIR/errors" || true)" 0
  expect_no_leftovers
}

@test "Open MPI of the image computes right sums by the container that its ranks share" {
  joint "apptainer --quiet pull --force --name mpi.sif docker://$registry/debian:mpi" > /dev/null
  run -0 --separate-stderr joint "timeout $((60 * slowness)) srun -w n1 -n4 -O --mpi=pmix \
    apptainer exec mpi.sif sums-openmpi"
  expect_equal "$output" '4 ranks on 1 nodes, 4 on the first, sum 6'
  joint 'rm mpi.sif'
}

@test "a step that is cancelled leaves nothing" {
  begin_step "$BATS_TEST_TMPDIR/out" '' 'true'
  root scancel --user alice
  wait "$step_pid" || true
  expect_no_leftovers
}

@test "command, environment, working directory and umask are each process's own" {
  run -0 --separate-stderr joint "srun -w n1 -n2 -O sh -c '
    cd sub; [ \$SLURM_PROCID = 0 ] || cd ..; umask 02\$SLURM_PROCID; export MINE=of.\$SLURM_PROCID
    apptainer exec --env X=\$SLURM_PROCID ~/joint/d.sif sh -c \"
      ~/joint/meet.sh in 2; echo \\\$X \\\$MINE \\\$(pwd) \\\$(umask) \\\$(readlink /proc/self/ns/user)\"'"
  expect_equal "$(cut -d' ' -f1-4 <<< "$output" | sort)" \
    $'0 of.0 /home/alice/joint/sub 0020\n1 of.1 /home/alice/joint 0021'
  expect_equal "$(cut -d' ' -f5 <<< "$output" | sort -u | wc -l)" 1
}

# two 'FLAGS OF TASK 0' 'FLAGS OF TASK 1': in how many containers they are.
two() {
  in_home 'rm -rf joint/meet; mkdir joint/meet'
  joint "srun -w n1 -n2 -O sh -c '[ \$SLURM_PROCID = 0 ] && flags=\"$1\" || flags=\"$2\"
    apptainer --silent exec \$flags d.sif sh -c \"/home/alice/joint/meet.sh in 2 && readlink /proc/self/ns/user\"'" |
    sort -u | wc -l
}

@test "other options make another container, and so does what each has for itself, but with --sharens" {
  expect_equal "$(two '' '')" 1
  expect_equal "$(two '--bind sub:/a' '--bind sub:/a')" 1
  expect_equal "$(two '--bind sub:/a' '--bind sub:/b')" 2
  expect_equal "$(two '--bind sub:/a' '--bind sub:/a:ro')" 2
  expect_equal "$(two '--fakeroot' '')" 2
  expect_equal "$(two '--fakeroot' '--fakeroot')" 1
  expect_equal "$(two '--home sub:/home/guest' '--home sub:/home/guest')" 1
  expect_equal "$(two '--overlay o' '--overlay o')" 1
  local own
  for own in --writable-tmpfs --ipc --uts '--hostname x' '--scratch /s' '--no-mount tmp'; do
    expect_equal "$own: $(two "$own" "$own")" "$own: 2"
    expect_equal "$own: $(two "--sharens $own" "--sharens $own")" "$own: 1"
  done
  joint 'chmod -R u+w o; rm -rf o'
}

@test "singularity and apptainer are one; another image, another step and what runs outside of steps are not" {
  joint 'cp d.sif other.sif'
  run -0 --separate-stderr joint "srun -w n1 -n4 -O sh -c '
    case \$SLURM_PROCID in 0|1) name=apptainer image=d.sif;; 2) name=singularity image=d.sif;;
      3) name=apptainer image=other.sif;; esac
    \$name exec \$image sh -c \"~/joint/meet.sh in 4; echo \\\$SLURM_PROCID \\\$(readlink /proc/self/ns/user)\"'"
  expect_equal "$(grep '^[012]' <<< "$output" | cut -d' ' -f2 | sort -u | wc -l)" 1
  expect_equal "$(cut -d' ' -f2 <<< "$output" | sort -u | wc -l)" 2
  in_home 'rm -rf joint/meet; mkdir joint/meet'
  run -0 --separate-stderr joint 'for i in 0 1; do
      SLURM_PROCID=$i apptainer exec d.sif sh -c "./meet.sh in 2; readlink /proc/self/ns/user" & done; wait'
  expect_equal "$(sort -u <<< "$output" | wc -l)" 2
  in_home 'rm -rf joint/meet other.sif; mkdir joint/meet'
  run -0 --separate-stderr joint 'for i in 0 1; do
      srun -w n1 -O --overlap sh -c \
        "apptainer exec d.sif sh -c \"./meet.sh in 2 $i; readlink /proc/self/ns/user\"" & done; wait'
  expect_equal "$(sort -u <<< "$output" | wc -l)" 2
  run -255 joint 'apptainer exec --sharens d.sif true'
  expect_output_like '^FATAL:   --sharens: processes share a container in a step of Slurm'
}

@test "processes of a batch script share a container too" {
  joint 'cat > b.sh' <<'END'
#!/bin/bash
for i in 0 1; do
  SLURM_PROCID=$i apptainer exec d.sif sh -c './meet.sh in 2; readlink /proc/self/ns/user' &
done
wait
END
  in_home "cd joint; $sbatch_wait -w n1 -o b.out b.sh" > /dev/null
  expect_equal "$(joint 'grep -c ^user: b.out')" 2
  expect_equal "$(joint 'sort -u b.out | wc -l')" 1
}

@test "each task has the devices and variables that Slurm gave it" {
  run -0 --separate-stderr joint 'srun -w n1 -n2 --gres=gpu:h100:2 apptainer exec --nv d.sif \
    sh -c "./meet.sh in 2; cd /dev; echo \$(ls -d nvidia[0-9]* | wc -l) \$CUDA_VISIBLE_DEVICES"'
  expect_equal "$(sort -u <<< "$output")" "2 0,1"
  in_home 'rm -rf joint/meet; mkdir joint/meet'
  run -0 --separate-stderr joint 'srun -w n1 -n2 --gres=gpu:h100:2 --gpu-bind=single:1 apptainer exec --nv d.sif \
    sh -c "./meet.sh in 2; cd /dev; echo \$SLURM_PROCID \$CUDA_VISIBLE_DEVICES-of-\$(echo nvidia[0-9]*)"'
  expect_equal "$(cut -d' ' -f1 <<< "$output" | sort | paste -sd,)" 0,1
  expect_equal "$(cut -d' ' -f2 <<< "$output" | sort -u | wc -l)" 2
}

@test "they meet in the folder of the caller's home on the node, whatever home the container has" {
  run -0 --separate-stderr joint "BERTH_DATA_PATH=%h/joint/containers srun -w n1 -n2 -O \
    apptainer exec --fakeroot d.sif sh -c './meet.sh in 2 && readlink /proc/self/ns/user'"
  expect_equal "$(sort -u <<< "$output" | wc -l)" 1
  expect_equal "$(without_progress <<< "$stderr")" ""
  expect_equal "$(joint 'ls containers/steps')" lock
}

@test "other engines, and what is written on disk: one container too" {
  with_site_lines '[mount]' 'engine = "unpack"'
  expect_equal "$(two '' '')" 1
  restore_site
  expect_no_leftovers
  with_site_lines '[mount]' 'upper = "/var/tmp/upper"'
  run -0 --separate-stderr joint "srun -w n1 -n2 -O apptainer exec --sharens --writable-tmpfs d.sif sh -c '
    touch /of.\$SLURM_PROCID; ./meet.sh disk 2; ls -d /of.*'"
  expect_equal "$(sort <<< "$output" | uniq -c | xargs)" '2 /of.0 2 /of.1'
  expect_no_leftovers
  expect_equal "$(root find /var/tmp/upper -mindepth 2 2> /dev/null || true)" ""
  root rm -rf /var/tmp/upper
}

@test "where the folder of containers cannot be used each process has its own, and a line says so" {
  joint 'mkdir -p open; chmod 777 open'
  with_site_lines '[data]' 'path = "/home/alice/joint/open"'
  run -0 --separate-stderr eight '' 'readlink /proc/self/ns/user; ./meet.sh in 8'
  expect_equal "$(sort -u <<< "$output" | wc -l)" 8
  expect_equal "$(grep -c '^WARNING: this process has a container of its own, apart from others of its step: ' \
    <<< "$stderr")" 8
}
