#!/usr/bin/env bats
# Into the container of a step that runs, from outside of its job: berth exec --job, and ssh.
load helper

setup() {
  cancel_everything
  root rm -rf /home/alice/.ssh /home/alice/.config/berth
  in_home 'rm -f started sent.bytes got.bytes config'
}

teardown() {
  cancel_everything
  terminals_as_before n1
  alice srun -w n1 berth rm --force dev 2> /dev/null || true
  in_home 'rm -f started sent.bytes got.bytes config'
}

# A step that runs until it is ended, of which $step and $job are the numbers: start_step OPTIONS...
start_step() {
  alice srun "$@" bash -c 'echo "first on $SLURMD_NODENAME" > /tmp/first
    (( SLURM_PROCID )) || echo $SLURM_JOB_ID.$SLURM_STEP_ID > /home/alice/started
    sleep 600' > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  wait_until 20 alice test -s started || fail "$(cat "$BATS_TEST_TMPDIR/first")"
  step=$(alice cat started) job=${step%.*}
}

start_in_container() {
  start_step -w n1 --container-image="$image" --container-mounts=/home/alice "$@"
}

# One line of ours, besides srun's about the exit code: expect_refused REGEX COMMAND...
expect_refused() {
  run "${@:2}"
  expect_failure
  expect_one_error_line
  expect_output_like "$1"
}

# bats test_tags=guest
@test "exec --job: a step's container without a name is entered from a login node, with its files and environment" {
  start_in_container
  run -0 alice berth exec --job "$step" sh -c 'cat /tmp/first; echo "$PWD $IMAGE_VAR $SLURM_JOB_ID"'
  expect_equal "$output" $'first on n1\n/srv from-image '"$job"
  # The job's number alone is enough where it has one container, and a mark before the command.
  run -0 alice berth exec --job "$job" -- cat /tmp/first
  expect_equal "$output" "first on n1"
  run -0 alice berth exec --job "$job" --node n1 -w /tmp -e X=1 sh -c 'echo "$PWD $X"'
  expect_equal "$output" "/tmp 1"
  # A word of the command's own.
  run -0 alice berth exec --job "$step" echo a -- b
  expect_equal "$output" "a -- b"
  # What of the caller would make another step of it.
  run -0 alice env SLURM_JOB_ID=999999 SLURM_NTASKS=7 SLURM_NNODES=3 BERTH_CONTAINER_IMAGE=nowhere/x \
    PYXIS_CONTAINER_IMAGE=nowhere/y SQUEUE_USERS=bob berth exec --job "$step" sh -c 'cat /tmp/first; nproc > /dev/null'
  expect_equal "$output" "first on n1"
  cancel_everything
  expect_no_leftovers
}

@test "exec --job: the exit code is the command's, by a signal too" {
  start_in_container
  run alice berth exec --job "$step" sh -c 'exit 7'
  expect_status 7
  run alice berth exec --job "$step" sh -c 'kill -9 $$'
  expect_status 137
  run -127 alice berth exec --job "$step" no-such-command
  expect_output_like "no-such-command"
}

@test "exec --job: who enters has no more rights than the step's tasks" {
  look='grep -E "^(NoNewPrivs|Seccomp|Cap...|Groups|Uid):" /proc/self/status; ls /proc/self/fd | wc -l;
    readlink /proc/self/ns/user /proc/self/ns/mnt'
  start_in_container
  alice srun --overlap --jobid="$job" -w n1 --container-name="$step" sh -c "$look" > "$BATS_TEST_TMPDIR/task"
  run -0 alice berth exec --job "$step" sh -c "$look"
  expect_equal "$output" "$(cat "$BATS_TEST_TMPDIR/task")"
  expect_output_like "NoNewPrivs:.1"
  expect_output_like "Seccomp:.2"
  expect_output_like "CapEff:.0000000000000000"
  run alice berth exec --job "$step" unshare --user true
  expect_failure
}

@test "exec --job: bytes pass as they are, and at once" {
  start_in_container
  in_home 'head -c 3000000 /dev/urandom > sent.bytes'
  in_home "berth exec --job $step cat < sent.bytes > got.bytes && cmp sent.bytes got.bytes"
  # A prompt without a line end, which is answered: slurmstepd would hold it back.
  in_home "mkfifo $BATS_TEST_NAME.fifo"
  run -0 in_home "exec 5<> $BATS_TEST_NAME.fifo; berth exec --job $step sh -c 'printf ask; read x; printf \"got \$x\"' \
    <&5 | { read -r -N 3 -t 60 word; echo answer >&5; echo \$word; cat; }; rm $BATS_TEST_NAME.fifo"
  expect_equal "$output" $'ask\ngot answer'
  # Standard error is its own, and no output is a terminal.
  run --separate-stderr -0 alice berth exec --job "$step" sh -c 'test ! -t 1 && test ! -t 0 && echo out; echo err >&2'
  expect_equal "$output" out
  expect_equal "$stderr" err
  # What is left running, and has let go of the streams, does not hold up the end. Otherwise, where processes are not
  # tracked by cgroups, slurmstepd waits a minute for their end, as in a step without a container.
  run -0 alice berth exec --job "$step" sh -c 'sleep 500 > /dev/null 2>&1 & echo gone'
  expect_equal "$output" gone
}

@test "exec --job: a terminal where the caller has one" {
  start_in_container
  run script -qec "stty rows 40 cols 100; '$box' run -u alice -- berth exec --job $step" /dev/null <<'END'
tty
stty size
cat /tmp/first
exit 3
END
  expect_status 3
  expect_output_like "/dev/pts/[0-9]+"
  expect_output_like "40 100"
  expect_output_like "first on n1"
}

@test "exec --job: a step's named container is entered by the step's number, on each node" {
  start_step -N2 --ntasks-per-node=1 --container-image="$image" --container-mounts=/home/alice --container-name=dev
  for node in n1 n2; do
    wait_until 20 alice berth exec --job "$job" --node "$node" -- cat /tmp/first
    run -0 alice berth exec --job "$step" --node "$node" cat /tmp/first
    expect_equal "$output" "first on $node"
  done
  # Without a node it is the first one.
  run -0 alice berth exec --job "$job" -- cat /tmp/first
  expect_equal "$output" "first on n1"
  expect_refused "entering job $job: it has no node n9" alice berth exec --job "$job" --node n9 true
  cancel_everything
  expect_no_leftovers
}

@test "exec --job: a step on another node than the job's first is entered there" {
  in_home "salloc -Q -N2 srun -Q -N1 -n1 -w n2 --container-image=$image --container-mounts=/home/alice sh -c \
    'echo \$SLURM_JOB_ID.\$SLURM_STEP_ID > /home/alice/started; sleep 600'" > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  wait_until 20 alice test -s started
  step=$(alice cat started) job=${step%.*}
  # shellcheck disable=SC2016
  run -0 alice berth exec --job "$step" sh -c 'echo $SLURMD_NODENAME'
  expect_equal "$output" n2
  expect_refused "job $job has no container here.*--node" alice berth exec --job "$job" -- true
}

@test "exec --job: several containers of a job are told, and one is chosen by its step" {
  in_home "salloc -Q -N1 -w n1 bash -c '
    for i in 1 2; do
      srun -Q --overlap -n1 --container-image=$image --container-mounts=/home/alice sh -c \
        \"echo \\\$SLURM_STEP_ID > /tmp/number; echo \\\$SLURM_JOB_ID >> /home/alice/started; sleep 600\" &
    done; wait'" > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  wait_until 30 in_home 'test "$(wc -l < started)" = 2'
  job=$(in_home 'head -n 1 started')
  expect_refused "several containers here; write one of $job.0, $job.1" alice berth exec --job "$job" -- true
  run -0 alice berth exec --job "$job.1" cat /tmp/number
  expect_equal "$output" 1
}

@test "exec --job: what cannot be entered is one line that says why" {
  expect_refused "entering job 999999: Slurm knows none" alice berth exec --job 999999 -- true
  expect_refused "a job is written as" alice berth exec --job 12x.0 true
  start_step -w n1
  expect_refused "n1: job $job has no container here" alice berth exec --job "$job" -- true
  expect_refused "step $step has no container here" alice berth exec --job "$step" true
  expect_refused "entering step $job.77: job $job runs none" alice berth exec --job "$job.77" true
  expect_refused "entering job $job: it is another user's" bob berth exec --job "$job" -- true
  # Slurm's own answer to one who does not ask by berth.
  run bob srun --overlap --jobid="$job" -w n1 berth enter "$job" true
  expect_failure
  cancel_everything
  expect_refused "entering job $job: (it has ended|Slurm knows none)" alice berth exec --job "$job" -- true
}

@test "exec --job: NAME is still a container that the job's steps share" {
  with_site_lines '[defaults]' 'container_scope = "job"'
  start_in_container --container-name=dev
  run -0 alice srun --overlap --jobid="$job" -w n1 berth exec --job "$job" dev cat /tmp/first
  expect_equal "$output" "first on n1"
  expect_refused "container other: the steps of job $job share none of that name here; .* --job $job -- other" \
    alice srun --overlap --jobid="$job" -w n1 berth exec --job "$job" other true
  restore_site
}

@test "exec --job: the command ends with the step, and nothing is left" {
  start_in_container
  alice berth exec --job "$step" sh -c 'echo entered; exec sleep 600' > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 grep -qx entered "$BATS_TEST_TMPDIR/second"
  root scancel "$step"
  code=0; wait "$second" || code=$?
  (( code != 0 )) || fail "the command ended well"
  cancel_everything
  expect_no_leftovers
  expect_nodes_up
}

# ssh of alice on the login node, by what berth ssh-config prints: by_ssh OPTIONS... HOST COMMAND...
by_ssh() { alice ssh -F config "$@"; }

@test "ssh-config: ssh enters the container, with a terminal, and passes exit codes" {
  terminals_of_distributions n1
  start_in_container
  in_home "berth ssh-config $job > config"
  run -0 by_ssh -T "berth-$job" 'id -un; cat /tmp/first; echo $IMAGE_VAR $SLURM_JOB_ID; test -t 1 || echo plain'
  expect_equal "$output" $'alice\nfirst on n1\nfrom-image '"$job"$'\nplain'
  run by_ssh "berth-$job-n1" 'exit 7'
  expect_status 7
  run -0 by_ssh -tt "berth-$job" 'tty; test -t 0 && only-in-image' < /dev/null
  expect_output_like '/dev/pts/[0-9]+'
  expect_output_like 'only in the image'
  # A shell of one's own.
  run -0 by_ssh -T "berth-$job" <<< 'cat /tmp/first; shopt -q login_shell && echo login'
  expect_equal "$output" $'first on n1\nlogin'
  # Keys are the user's alone, and stay as they are.
  # shellcheck disable=SC2012
  run -0 in_home 'cd .config/berth/ssh; stat -c "%a %n" . host_key user_key; sha256sum * > ~/got.bytes;
    berth ssh-config '"$job"' > /dev/null; sha256sum --quiet -c ~/got.bytes'
  expect_equal "$output" $'700 .\n600 host_key\n600 user_key'
}

@test "ssh: a session has the rights of a task, and the node stays outside" {
  start_in_container
  in_home "berth ssh-config $step > config"
  look='grep -E "^(NoNewPrivs|Seccomp|CapEff|CapBnd):" /proc/self/status; readlink /proc/self/ns/mnt'
  alice srun --overlap --jobid="$job" -w n1 --container-name="$step" sh -c "$look" > "$BATS_TEST_TMPDIR/task"
  run -0 by_ssh -T "berth-$step" "$look"
  expect_equal "$output" "$(cat "$BATS_TEST_TMPDIR/task")"
  # What is not a session of the container is refused.
  run by_ssh -T -o StreamLocalBindUnlink=yes -o ExitOnForwardFailure=yes -R /tmp/socket:/tmp/other "berth-$job" true
  expect_failure
  run -0 by_ssh -A -T "berth-$step" 'echo "${SSH_AUTH_SOCK-none}"'
  expect_equal "$output" none
  # Nobody else's key opens it, nor another user's job.
  in_home "sed -i '/IdentityFile/d' config"
  run by_ssh -o BatchMode=yes "berth-$step" true
  expect_failure
  expect_output_like "Permission denied"
  expect_refused "entering job $job: it is another user's" bob berth ssh-config "$job"
}

@test "ssh: files are copied by sftp and scp, a port is forwarded, and bytes pass as they are" {
  # The registry's image with libcrypto; the sftp-server of this machine in place of an image's own.
  start_step -w n1 --container-image="$registry/debian:mpi" \
    --container-mounts=/home/alice,/usr/lib/openssh/sftp-server
  in_home "berth ssh-config $job > config; head -c 3000000 /dev/urandom > sent.bytes"
  in_home "ssh -F config berth-$job 'cat > /tmp/copy; cat /tmp/copy' < sent.bytes > got.bytes"
  in_home 'cmp sent.bytes got.bytes'
  in_home "rm got.bytes; scp -q -s -F config sent.bytes berth-$job:/tmp/by-sftp && \
    scp -q -s -F config berth-$job:/tmp/by-sftp got.bytes && cmp sent.bytes got.bytes"
  run -0 alice berth exec --job "$job" -- cmp /home/alice/sent.bytes /tmp/by-sftp
  # Into what the container reaches on the node.
  run -0 in_home "printf 'GET /v2/ HTTP/1.0\r\n\r\n' | ssh -F config -W 127.0.0.1:${registry##*:} berth-$job"
  expect_output_like "^HTTP/1.[01] 200"
}

@test "ssh: without an sftp-server in the image, one line says what to do" {
  start_in_container
  in_home "berth ssh-config $job > config; echo x > sent.bytes"
  run in_home "scp -s -F config sent.bytes berth-$job:/tmp/copy"
  expect_failure
  expect_output_like "image has no sftp-server; install openssh-sftp-server"
}

@test "ssh: from another machine, by the login node and a key of one's own" {
  start_in_container
  in_home "mkdir -p -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/own; cp .ssh/own.pub .ssh/authorized_keys
    ssh-keygen -q -t ed25519 -N '' -f .ssh/other
    berth ssh-config --login the-login-node $job > config"
  # In place of the way to the login node: it runs the command there.
  in_home 'mkdir -p bin
    printf "#!/bin/sh\n[ \"\$1 \$2\" = \"-T the-login-node\" ] && shift 2 && exec \"\$@\"\n" > bin/ssh
    chmod 755 bin/ssh'
  known="-o UserKnownHostsFile=/home/alice/.ssh/known -o BatchMode=yes"
  run -0 in_home "PATH=~/bin:\$PATH /usr/bin/ssh -F config -i .ssh/own $known berth-$job 'cat /tmp/first' 2> /dev/null"
  expect_equal "$output" "first on n1"
  # The next job's server has the same key.
  run -0 in_home "PATH=~/bin:\$PATH /usr/bin/ssh -F config -i .ssh/own $known berth-$job true"
  expect_equal "$output" ""
  run in_home "PATH=~/bin:\$PATH /usr/bin/ssh -F config -i .ssh/other $known berth-$job true"
  expect_failure
  in_home 'rm -r bin'
}

# bats test_tags=cgroup
@test "ssh: the session ends with the job, and leaves neither process nor port" {
  start_in_container
  in_home "berth ssh-config $job > config"
  by_ssh -T "berth-$job" 'echo entered; exec sleep 600' > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 grep -qx entered "$BATS_TEST_TMPDIR/second"
  root pgrep -x sshd > /dev/null || fail "no sshd serves the session"
  run -0 root ss -Hltnp
  [[ $output != *'("sshd"'* && $output != *'("berth"'* ]] || fail "somebody listens:" "$output"
  root scancel "$job"
  code=0; wait "$second" || code=$?
  expect_equal "$code" 255
  wait_until 20 no_jobs
  expect_no_leftovers
  within 5 eval '! root pgrep -x sshd'
  # So does the server when ssh is killed.
  in_home 'rm started'
  start_in_container
  in_home "berth ssh-config $job > config"
  in_home "timeout -s KILL 600 ssh -T -F config berth-$job 'echo again; sleep 600'" \
    > "$BATS_TEST_TMPDIR/third" 2>&1 3>&- &
  wait_until 20 grep -qx again "$BATS_TEST_TMPDIR/third"
  root pkill -9 -x ssh
  wait_until 20 eval '! root pgrep -x sshd'
}

# bats test_tags=cgroup
@test "ssh: a connection without a session ends with the step whose container it is for, while the job goes on" {
  run -0 alice salloc -Q --no-shell -w n1
  start_in_container --jobid="$(root squeue --noheader --format=%A)"
  in_home "berth ssh-config $step > config"
  by_ssh -N -o PermitLocalCommand=yes -o LocalCommand='echo entered' "berth-$step" \
    > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 20 grep -qx entered "$BATS_TEST_TMPDIR/second"
  root scancel "$step"
  wait_until 20 eval '! kill -0 "$second"'
  code=0; wait "$second" || code=$?
  expect_equal "$code" 255
  wait_until 20 eval '! root pgrep -x sshd'
  expect_equal "$(root squeue --noheader --format=%T)" RUNNING
  cancel_everything
  expect_no_leftovers
}
