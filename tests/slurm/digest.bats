#!/usr/bin/env bats
# One digest a job: what a tag means is asked once, where the job is submitted.
load helper

moving=$registry/debian:moving

# Makes the tag debian:moving mean what debian:$1 means.
move_tag() {
  local type='application/vnd.oci.image.manifest.v1+json' url=http://$registry/v2/debian/manifests
  curl -sf -H "Accept: $type" "$url/$1" | curl -sf -X PUT -H "Content-Type: $type" --data-binary @- "$url/moving"
}

@test "row 14: two nodes ask the registry once, and the tasks know what they run, whatever --export lets through" {
  digest=$(manifest_digest 12)
  mark_log
  run -0 alice srun -N2 --export=NONE --container-image="$image" sh -c 'echo $BERTH_CONTAINER_DIGEST'
  expect_equal "$output" "$digest"$'\n'"$digest"
  expect_equal "$(count_since '(HEAD|GET)' /v2/debian/manifests/)" 1
}

@test "resolve_tags = nodes leaves it to the nodes" {
  mark_log
  run -0 alice env BERTH_SLURM_RESOLVE_TAGS=nodes srun -N2 --container-image="$image" true
  expect_equal "$(count_since HEAD /v2/debian/manifests/)" 2
}

asked_once() { (( $(count_since HEAD /v2/debian/manifests/moving) == 1 )); }

@test "nodes that ask for themselves all run what the first of them found, and one that found something else says both digests" {
  move_tag zstd
  before=$(manifest_digest moving)
  mark_log
  pid=$(root cat /run/slurmd.n2.pid)
  root kill -STOP "$pid"
  in_home "BERTH_SLURM_RESOLVE_TAGS=nodes srun -N2 --container-image=$moving sh -c 'echo \$BERTH_CONTAINER_DIGEST'" \
    > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/errors" 3>&- &
  wait_until 20 asked_once || { root kill -CONT "$pid"; fail "n1 did not ask"; }
  move_tag tar
  after=$(manifest_digest moving)
  root kill -CONT "$pid"
  wait $!
  [[ $after != "$before" ]]
  expect_equal "$(cat "$BATS_TEST_TMPDIR/out")" "$before"$'\n'"$before"
  output=$(cat "$BATS_TEST_TMPDIR/errors")
  expect_output_like "n2: .*debian:moving is $after here; this step runs $before, which node n1 found first"
}

@test "a batch job runs what the tag meant at its submission, which is said, unless a variable forbids it" {
  move_tag zstd
  before=$(manifest_digest moving)
  run -0 --separate-stderr alice sbatch --hold --parsable -o frozen.out --container-image="$moving" --wrap \
    'echo $BERTH_CONTAINER_DIGEST'
  frozen=$output
  [[ $stderr == *"debian:moving is $before for this job"* ]]
  run -0 --separate-stderr alice env BERTH_SLURM_RESOLVE_TAGS=nodes sbatch --hold --parsable -o later.out \
    --container-image="$moving" \
    --wrap 'echo $BERTH_CONTAINER_DIGEST'
  expect_equal "$stderr" ""
  move_tag tar
  after=$(manifest_digest moving)
  root scontrol release "$frozen" "$output"
  wait_until 20 no_jobs
  expect_equal "$(alice cat frozen.out)" "$before"
  expect_equal "$(alice cat later.out)" "$after"
  [[ $after != "$before" ]]
}

@test "the steps of a job run what its first one found, and ask the registry once" {
  # shellcheck disable=SC2016
  local show='srun -Q -w n1 --container-image='$moving' sh -c "echo \$BERTH_CONTAINER_DIGEST"'
  move_tag zstd
  before=$(manifest_digest moving)
  run -0 --separate-stderr alice salloc -Q -w n1 --no-shell -J answers
  job=$(alice squeue -h -n answers -o %i)
  mark_log
  run -0 --separate-stderr in_home "export SLURM_JOB_ID=$job SLURM_CLUSTER_NAME=box; $show; $show"
  expect_equal "$output" "$before"$'\n'"$before"
  expect_equal "$(count_since HEAD /v2/debian/manifests/moving)" 1
  move_tag tar
  after=$(manifest_digest moving)
  [[ $after != "$before" ]]
  mark_log
  run -0 --separate-stderr in_home "export SLURM_JOB_ID=$job SLURM_CLUSTER_NAME=box; $show"
  expect_equal "$output" "$before"
  expect_equal "$(count_since '(HEAD|GET)' /v2/debian/manifests/)" 0
  # Who wants to know anew, and another job.
  run -0 --separate-stderr in_home "export SLURM_JOB_ID=$job SLURM_CLUSTER_NAME=box BERTH_STORE_PULL=always; $show"
  expect_equal "$output" "$after"
  alice scancel "$job"
  run -0 --separate-stderr in_home "$show"
  expect_equal "$output" "$after"
}

@test "the steps of a batch script run one image, whatever becomes of the tag between them" {
  move_tag zstd
  before=$(manifest_digest moving)
  in_home "rm -f go seen"
  # shellcheck disable=SC2016
  run -0 --separate-stderr alice sbatch --parsable -o steps.out --wrap "
    show() { srun -n1 --container-image=$moving sh -c 'echo \$BERTH_CONTAINER_DIGEST'; }
    show; : > seen; while [ ! -e go ]; do sleep 0.1; done; show"
  wait_until 20 alice test -e seen
  move_tag tar
  [[ $(manifest_digest moving) != "$before" ]]
  alice touch go
  wait_until 20 no_jobs
  expect_equal "$(alice cat steps.out)" "$before"$'\n'"$before"
}

trackers() { root pgrep -u alice -f 'berth-?[a-z]* agree ' || true; }
both_tasks_said() { (( $(grep -c "^<.*>$" "$BATS_TEST_TMPDIR/out") == 2 )); }
has_tracker() { [[ $(trackers) == "$1" || ( $1 == any && -n $(trackers) ) ]]; }

@test "a step of several nodes has a tracker beside srun: no list of processes shows its secret, and it goes with srun" {
  # shellcheck disable=SC2016
  in_home "exec srun -N2 --container-image=$image sh -c 'echo \"<\$SLURM_BERTH_MEETING>\"; sleep 60'" \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 has_tracker any
  tracker=$(trackers)
  wait_until 20 both_tasks_said
  # Neither do the tasks, whose image could send layers of its own to the other nodes, nor the user's other processes.
  expect_equal "$(grep "^<" "$BATS_TEST_TMPDIR/out")" $'<>\n<>'
  run alice cat "/proc/$tracker/environ"
  expect_failure
  secret=$(root cat "/proc/$tracker/environ" | tr '\0' '\n' | sed -n 's/^BERTH_AGREE_SECRET=//p')
  port=$(root ss -Hltnp | sed -n "s/.*:\([0-9]*\) .*pid=$tracker,.*/\1/p" | head -n 1)
  [[ $port =~ ^[0-9]+$ && $secret =~ ^[0-9a-f]{32}$ ]]
  [[ $(root cat "/proc/$tracker/cmdline" | tr '\0' ' ') == *"/berth agree 2 " ]]
  [[ $(root ps -eo args) != *"$secret"* ]]
  # Connections of who does not know it are no reason to end. They are, with or without a reset.
  root bash -c "exec 3<> /dev/tcp/127.0.0.1/$port; echo nonsense >&3; cat <&3 || :"
  expect_equal "$(trackers)" "$tracker"
  [[ $(root cat "/proc/$tracker/cmdline" | tr '\0' ' ') == *"berth-pull agree 2 " ]]
  root pkill -KILL -u alice -x srun
  wait_until 20 has_tracker ""
  cancel_everything
}

# A program that notes its environment, or what it reads, as NAME.PID: noting NAME env|cat.
noting() {
  # shellcheck disable=SC2016
  printf '#!/bin/sh\n%s > /home/alice/noted/%s.$$\n' "$2" "$1"
}

# In a step of two nodes programs of those names have noted so often, and none of them the secret:
# expect_noted NAME COUNT...
expect_noted() {
  local name
  while (($#)); do
    name=$1
    expect_equal "$name $(in_home "cat noted/$name.* | grep -cE '^PATH=|\"SLURM_JOB_ID\"'")" "$name $2"
    shift 2
  done
  expect_equal "$(in_home "grep -rl SLURM_BERTH_MEETING noted || true")" ""
}

@test "no program of the site on a node learns the step's secret: its hooks, those of Enroot's form" {
  in_home "rm -rf noted; mkdir noted"
  root bash -c 'mkdir -p /etc/berth/hooks.d; echo "$1" > /etc/berth/hooks.d/a; echo "$2" > /etc/berth/hooks.d/b.enroot
    chmod 755 /etc/berth/hooks.d/*' bash "$(noting hook cat)" "$(noting enroot env)"
  run alice srun -N2 --container-image="$image" true
  root rm -rf /etc/berth/hooks.d
  expect_status 0
  expect_noted hook 2 enroot 2
}

@test "no program around a task learns the step's secret: TaskProlog, TaskEpilog" {
  in_home "rm -rf noted; mkdir noted"
  for name in prolog epilog; do
    root bash -c 'cp -p "/etc/slurm/task_$1" "/etc/slurm/task_$1.kept"; tail -n 1 <<< "$2" >> "/etc/slurm/task_$1"' \
      bash "$name" "$(noting "$name" env)"
  done
  run alice srun -N2 --container-image="$image" true
  for name in prolog epilog; do root mv "/etc/slurm/task_$name.kept" "/etc/slurm/task_$name"; done
  expect_status 0
  expect_noted prolog 2 epilog 2
}

@test "no program of srun's learns the step's secret: SrunProlog, SrunEpilog, --prolog and --epilog" {
  in_home "rm -rf noted srun_programs; mkdir noted srun_programs; cd srun_programs; cp /etc/slurm/slurm.conf conf
    $(declare -f noting)
    for name in Prolog Epilog; do
      noting option_\$name env > option_\$name; noting site_\$name env > site_\$name
      echo Srun\$name=\$PWD/site_\$name >> conf
    done
    chmod 755 *log"
  run -0 in_home "SLURM_CONF=\$PWD/srun_programs/conf srun -N2 --container-image=$image true"
  run -0 in_home "srun -N2 --prolog=\$PWD/srun_programs/option_Prolog --epilog=\$PWD/srun_programs/option_Epilog \
    --container-image=$image true"
  expect_noted site_Prolog 1 site_Epilog 1 option_Prolog 1 option_Epilog 1
}

@test "a step of one node has no tracker" {
  alice srun -N1 --container-image="$image" sleep 60 > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 step_runs
  expect_equal "$(trackers)" ""
  cancel_everything
}

step_runs() { [[ -n $(stepd_pid) ]]; }

@test "berth run does not ask again what it was told a minute ago, unless it is to; berth pull asks" {
  move_tag zstd
  in_home "berth pull -q $moving"
  mark_log
  in_home "berth run -q $moving true"
  move_tag tar
  in_home "berth run -q $moving true"
  expect_equal "$(count_since '(HEAD|GET)' /v2/debian/manifests/moving)" 0
  # Who wants to know now.
  in_home "BERTH_STORE_FRESH_FOR=0 berth run -q $moving true"
  expect_equal "$(count_since HEAD /v2/debian/manifests/moving)" 1
  in_home "berth pull -q $moving"
  expect_equal "$(count_since HEAD /v2/debian/manifests/moving)" 2
}

@test "berth run asks again when the last answer has become old, and remembers that it did" {
  local run='BERTH_STORE_FRESH_FOR=2 berth run -q '$moving' true'
  move_tag zstd
  in_home "berth pull -q $moving"
  sleep 2.1
  mark_log
  in_home "$run; $run"
  expect_equal "$(count_since '(HEAD|GET)' /v2/debian/manifests/)" 1
}

@test "a registry that does not answer: the nodes say so, once for each" {
  run alice srun -N2 --container-image="127.0.0.1:1/debian:12" true
  expect_failure
  expect_equal "$(grep -c 'berth: .*127.0.0.1:1' <<< "$output")" 2
}
