#!/usr/bin/env bats
# How a step fails: once, soon, with its cause, and without harm to the node or to others.
# bats file_tags=cgroup
load helper

setup_file() {
  start_faulty
}

teardown_file() {
  stop_faulty
}

setup() {
  cancel_everything
}

teardown() {
  cancel_after_failure
  restore_site
  root bash -c '[[ ! -e /usr/bin/berth.kept ]] || mv /usr/bin/berth.kept /usr/bin/berth; chown root:root /usr/bin/berth;
      chmod 755 /usr/bin/berth /etc/berth/berth.conf'
}

now_ms() { date +%s%3N; }

# As alice in the background; $step is srun, its output in $out.
start_srun() {
  out=$BATS_TEST_TMPDIR/out
  # Here and not in the background: the output of the step before would be taken for this one's.
  : > "$out"
  env --default-signal=INT "$box" run -u alice -- srun "$@" > "$out" 2>&1 3>&- &
  step=$!
}

no_pull() { [[ -z $(berth_processes) ]]; }

@test "sixteen tasks on two nodes tell an error of all once a node" {
  run -125 alice srun -N2 -n16 --container-image="$image" --container-workdir=/not/there true
  expect_equal "$(grep -c 'berth: n[12]: ' <<< "$output")" 2
}

@test "of two nodes the one that is behind is named" {
  run -0 alice srun -w n1 --container-image="$faulty/slow:latest" /bare
  root bash -c "rm -rf $state/nodes/n2/store/*"
  progress=shown run -0 alice srun -N2 --container-image="$faulty/slow:latest" /bare
  # On a busy machine the first second may pass before the pull.
  expect_output_like "berth: n2: (pulling|asking [^ ]* for the manifest of) image $faulty/slow:latest"
  [[ $output != *"berth: n1: pulling"* ]]
}

# Ends the step by scancel or by Ctrl-C; $elapsed is how many milliseconds pass until a command says that it is so:
# end_by scancel|interrupt COMMAND
end_by() {
  local before
  before=$(now_ms)
  if [[ $1 == scancel ]]; then root scancel -u alice; else interrupt_twice "$step" "$out"; fi
  within 10 "$2"
  elapsed=$(($(now_ms) - before))
  wait "$step" || true
}

# By its name or its path.
sleep_runs() { root pgrep -fx '[^ ]*sleep 1069'; }

no_sleep() { ! sleep_runs; }

# How long Slurm itself needs to end a step, as busy as the machine is now.
bare_end_by() {
  start_srun -w n1 sleep 1069
  wait_until 20 sleep_runs
  end_by "$1" no_sleep
}

@test "a pull that is cancelled ends within a second, by scancel and by Ctrl-C" {
  for by in scancel interrupt; do
    root bash -c "rm -rf $state/nodes/n1/store/*"
    start_srun -w n1 --container-image="$faulty/crawling:latest" /bare
    wait_until 20 grep -q pulling "$out"
    end_by "$by" no_pull
    took=$elapsed
    expect_no_leftovers
    (( took < 1500 )) || { bare_end_by "$by"; (( took < 1500 + elapsed )); } ||
      fail "the pull went on for $took ms after $by; without a container $elapsed ms"
  done
}

@test "scancel at any moment of a cold start leaves nothing" {
  for tenths in 1 2 3 5 8; do
    forget_images
    start_srun -N2 -n4 --container-image="$image" sleep 600
    sleep "0.$tenths"
    # On a busy machine the job may not be there yet: then it is cancelled as soon as it is.
    until ! kill -0 "$step" 2> /dev/null; do
      root scancel -u alice
      sleep 0.2
    done
    wait "$step" || true
    expect_no_leftovers
  done
  expect_nodes_up
}

# How many seconds Slurm itself needs to end 256 tasks after one was killed, as busy as the machine is now.
bare_end() {
  start_srun -w n1 -n256 --overcommit --kill-on-bad-exit=1 sh -c 'echo up; exec sleep 1068'
  wait_until 60 eval '(( $(grep -c up "$out") == 256 ))'
  wait_until 20 root pgrep -fx 'sleep 1068' > /dev/null
  kill_9 "$(root pgrep -fx 'sleep 1068' | tail -n 1)"
  SECONDS=0
  wait "$step" || true
  bare=$SECONDS
}

# Those of the only step on a node; a TaskProlog that one of them starts is its own child.
waiting_tasks() { root pgrep -x berth-task -P "$(stepd_pid)"; }

# One of 256 tasks is killed while it waits; $took is how many seconds the others need to fail.
kill_one_of_256() {
  root bash -c "rm -rf $state/nodes/n1/store/*"
  asked=$(faulty_count 'GET /v2/crawling/blobs/')
  start_srun -w n1 -n256 --overcommit --container-image="$faulty/crawling:latest" /bare
  wait_until 60 grep -q pulling "$out"
  # On a busy machine some tasks are not there yet when a pull of seconds is over.
  wait_until 30 eval '(( $(waiting_tasks | wc -l) == 256 ))'
  victim=$(waiting_tasks | tail -n 1)
  kill_9 "$victim"
  SECONDS=0 code=0
  wait "$step" || code=$?
  took=$SECONDS
  (( code )) || fail "exit code $code after $took s" "$(tail -n 5 "$out")"
  expect_equal "$(grep -c 'a task of the step was killed while it waited' "$out")" 1
  # Of the config and of the one layer.
  expect_equal "$(($(faulty_count 'GET /v2/crawling/blobs/') - asked))" 2
  expect_no_leftovers
}

# Three tries: what else the machine does may take the processors from one of them, and from Slurm alone in another.
@test "hostile row 68: one of 256 tasks is killed while it waits: one pull, and the others fail within ten seconds" {
  seen=()
  for _ in 1 2 3; do
    kill_one_of_256
    (( took > 10 )) || return 0
    bare_end
    (( took > 10 + bare )) || return 0
    seen+=("$took s, without a container $bare s")
  done
  fail "${seen[@]}"
}

@test "256 tasks on a node run" {
  run -0 alice srun -w n1 -n256 --overcommit --container-image="$image" sh -c 'echo $SLURM_PROCID'
  expect_equal "$(sort -un <<< "$output" | wc -l)" 256
}

# A container's step fails with one line that matches; what has no container runs: expect_misconfigured REGEX.
expect_misconfigured() {
  run alice srun -w n1 -n2 --container-image="$image" true
  expect_failure
  expect_one_error_line
  expect_output_like "$1"
  run -0 alice srun -w n1 true
  expect_nodes_up
}

@test "a helper that is missing, another user's or writable by others is one line, and plain steps run" {
  root mv /usr/bin/berth /usr/bin/berth.kept
  expect_misconfigured "looking for the helper /usr/bin/berth .*plugstack.conf"
  root mv /usr/bin/berth.kept /usr/bin/berth
  root chown alice /usr/bin/berth
  expect_misconfigured "/usr/bin/berth must be a file of root's"
  root chown root /usr/bin/berth
  root chmod 777 /usr/bin/berth
  expect_misconfigured "/usr/bin/berth must be a file of root's"
}

@test "a site file that is broken, unreadable or writable by others is one line, and plain steps run" {
  with_site_lines 'nonsense = 1'
  expect_misconfigured "berth.conf"
  restore_site
  root chmod 600 /etc/berth/berth.conf
  expect_misconfigured "berth.conf.*Permission denied"
  root chmod 666 /etc/berth/berth.conf
  expect_misconfigured "berth.conf.*chmod 644"
}

@test "bad input time after time drains no node" {
  in_home 'cat > bad.sh; chmod 755 bad.sh' <<'END'
#!/bin/bash
# All mistakes of the N-th round.
srun -w n1 --container-image="./none$1.sqsh" true
srun -w n2 --container-image="$IMAGE" --container-mounts=/none:/x true
srun -w n1 --container-image="$IMAGE" "no-such-command$1"
srun --container-image=Not/An/Image true
sbatch -Q -o /dev/null --container-image="${IMAGE%/*}/none:$1" --wrap true
END
  run in_home "export IMAGE=$image; seq 20 | xargs -P 8 -n 1 ./bad.sh 2> /dev/null"
  wait_until 60 no_jobs
  expect_nodes_up
  run -0 contained true
}

# Ten times each mistake; BERTH_TEST_MISTAKES is another number of steps (scripts/test soak).
# shellcheck disable=SC2016
@test "many steps with mistakes, eight at a time: each fails, and no node is drained" {
  before=$(published)
  local mistakes=${BERTH_TEST_MISTAKES:-100}
  in_home 'echo no image > bad.sqsh; head -c 200000 /dev/urandom > random.sqsh; cat > mistakes.sh' <<'END'
#!/bin/bash
# The N-th mistake; prints the exit code of its step.
case $(($1 % 10)) in
  0) srun --container-image="$IMAGE" --container-workdir=/not/there true ;;
  1) srun --container-image="$IMAGE" --container-mounts=/not/there:/mnt true ;;
  2) srun --container-image="$IMAGE" not-a-command ;;
  3) srun --container-image=./bad.sqsh true ;;
  4) srun --container-image=./random.sqsh true ;;
  5) srun --container-image=/dev/urandom true ;;
  6) srun --container-image="${IMAGE%:*}:no-such-tag" true ;;
  7) srun --container-image="$IMAGE" --container-mounts=tmpfs:/proc/self/cwd/x true ;;
  8) srun --container-image="$IMAGE" --container-save=/not/there/x.sqsh true ;;
  9) srun --container-name=none-of-this-name true ;;
esac &> /dev/null
echo $?
END
  run -0 in_home \
    "chmod 755 mistakes.sh; export SLURM_OVERLAP=1 IMAGE=$image; salloc -Q -N2 --ntasks-per-node=1 bash -c \
      'unset SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS
    seq $mistakes | xargs -P 8 -n 1 ./mistakes.sh' | sort | uniq -c"
  expect_equal "$(grep -cE '^ +[0-9]+ 0$' <<< "$output" || true)" 0
  expect_equal "$(awk '{ sum += $1 } END { print sum }' <<< "$output")" "$mistakes"
  wait_until 30 "$box" status
  run -0 alice srun -N2 --container-image="$image" true
  expect_equal "$(published)" "$before"
  expect_no_leftovers
}
