#!/usr/bin/env bats
# Every way in which a job or a step can ask for a container: it runs in the image, or it is refused, fails or is told
# of in one line. None runs on the node without a word. A row a way; what a release of Slurm does not have is read from
# its own --help, and refused there by Slurm itself.
load helper

setup_file() {
  in_home "cat > ways.sh; chmod +x ways.sh; sed '2i #SBATCH --export=NONE' ways.sh > ways-none.sh" <<'END'
#!/bin/bash
only-in-image 2> /dev/null || echo on the node
END
  # A client without Berth's plugin, as an image may bring one.
  root bash -c "sed 's|^PlugStackConfig=.*|PlugStackConfig=/home/alice/no-plugstack.conf|' /etc/slurm/slurm.conf \
    > /home/alice/ways-slurm.conf"
}

teardown_file() { in_home "rm -f ways*" || root bash -c 'rm -f /home/alice/ways*'; }

# What a batch job comes to: batch [NAME=VALUE...] COMMAND... In the output is what sbatch had to say, but for the
# digest, and then the script.
batch() {
  local words
  printf -v words '%q ' "$@"
  run in_home "rm -f ways.out; env $words"
  output=$(grep -v ' is sha256:[0-9a-f]* for this job$' <<< "$output"; in_home 'cat ways.out 2> /dev/null' || true)
  output=$(without_progress <<< "$output")
}
submitted() { batch "${variables[@]}" "$sbatch_wait" -w n1 -o ways.out "$@"; }
step() {
  run in_home "$*"
  output=$(without_progress <<< "$output")
}

count() { grep -c -- "$1" <<< "$output" || true; }

# expect_came WHERE LINES: where the command ran, and how many lines of Berth's there are. `image` and `node` ended with
# 0, `nowhere` with a failure.
expect_came() {
  local image node
  image=$(count '^only in the image$') node=$(count '^on the node$')
  case $1 in
    image) (( image == ${3:-1} && node == 0 && status == 0 )) ;;
    node) (( image == 0 && node == ${3:-1} && status == 0 )) ;;
    nowhere) (( image == 0 && node == 0 && status != 0 )) ;;
  esac || fail "expected: $1" "exit code $status, output:" "$output"
  (( $(count 'berth: ') == $2 )) || fail "expected $2 lines of berth's:" "$output"
}

# Refused before anything was queued.
expect_refused() {
  expect_came nowhere 1
  expect_output_like "$1"
  expect_equal "$(next_job)" "$next"
}

knows() { alice "$1" --help 2>&1 | grep -qE "[[ ]--$2\b"; }

setup() {
  variables=()
  next=$(next_job)
}

teardown() { cancel_after_failure; }

@test "sbatch: an option on the command line, and in the script" {
  submitted "--container-image=$image" ways.sh
  expect_came image 0
  in_home "sed '2i #SBATCH --container-image=$image' ways.sh > ways-lines.sh"
  submitted ways-lines.sh
  expect_came image 0
}

@test "sbatch --export=ALL" {
  submitted --export=ALL "--container-image=$image" ways.sh
  expect_came image 0
}

@test "sbatch --export=NONE, also in the script" {
  submitted --export=NONE "--container-image=$image" ways.sh
  expect_came image 0
  submitted "--container-image=$image" ways-none.sh
  expect_came image 0
}

@test "sbatch --export=NIL" {
  submitted --export=NIL "--container-image=$image" ways.sh
  expect_came image 0
}

@test "sbatch --export=FOO=1" {
  submitted --export=FOO=1 "--container-image=$image" ways.sh
  expect_came image 0
}

@test "sbatch --export=HOME,PATH" {
  submitted --export=HOME,PATH "--container-image=$image" ways.sh
  expect_came image 0
}

# 23.11 has no such option, and those before and after it have.
@test "sbatch --export-file, where sbatch has it; elsewhere sbatch refuses it" {
  in_home "printf 'PATH=/usr/bin:/bin\0ONE=1\0' > ways.env"
  submitted --export-file=ways.env "--container-image=$image" ways.sh
  if knows sbatch export-file; then
    expect_came image 0
  else
    expect_came nowhere 0
    expect_output_like 'unrecognized option.*export-file'
    expect_equal "$(next_job)" "$next"
  fi
}

@test "what else was asked for comes with the image, and so does its digest" {
  local digest forms=(--export=NONE --export=FOO=1) form
  digest=$(manifest_digest 12)
  in_home "printf 'PATH=/usr/bin:/bin\0' > ways.env; cat > ways-all.sh" <<'END'
#!/bin/bash
only-in-image
pwd; id -u; touch /x 2> /dev/null || echo read-only; cat /mounted; echo "$SLURM_BERTH_FROZEN"; env | grep SPANK_BERTH
exit 0
END
  ! knows sbatch export-file || forms+=(--export-file=ways.env)
  for form in "${forms[@]}"; do
    submitted "$form" "--container-image=$image" --container-workdir=/opt --container-remap-root \
      --container-readonly --container-mounts=/etc/hostname:/mounted ways-all.sh
    expect_came image 0
    expect_equal "$output" "$(printf '%s\n' 'only in the image' /opt 0 read-only box "$image $digest")"
  done
}

@test "an environment file is what sbatch read, whatever --export lets through" {
  local forms=(--export=NONE) form
  ! knows sbatch export-file || forms+=(--export-file=ways.env)
  for form in "${forms[@]}"; do
    in_home "printf 'PATH=/usr/bin:/bin\0' > ways.env; echo 'image = \"$image\"' > ways.toml; rm -f ways.out"
    in_home "sbatch -Q -H $form -J ways -w n1 -o ways.out --container-environment=./ways.toml ways.sh"
    in_home 'rm ways.toml'
    alice scontrol release "$(alice squeue --noheader -n ways -o %A)"
    wait_until 60 no_jobs
    run -0 in_home 'cat ways.out'
    expect_came image 0
  done
}

@test "sbatch by a variable, which --export lets pass, or not: then the script fails" {
  local name
  for name in BERTH_CONTAINER_IMAGE PYXIS_CONTAINER_IMAGE; do
    variables=("$name=$image")
    submitted ways.sh
    expect_came image 0
    submitted "--export=$name" ways.sh
    expect_came image 0
    submitted --export=NONE ways.sh
    expect_came nowhere 1
    expect_output_like 'berth: n1: sbatch was asked for a container, by a variable .* left out'
  done
  ! knows sbatch export-file || {
    in_home "printf 'PATH=/usr/bin:/bin\0' > ways.env"
    submitted --export-file=ways.env ways.sh
    expect_came nowhere 1
  }
  variables=(BERTH_CONTAINER_WORKDIR=/opt)
  submitted --export=NONE "--container-image=$image" ways.sh
  expect_came image 1
  expect_output_like 'berth: n1: --container-workdir: sbatch took this from a variable'
}

@test "an array, whatever --export lets through" {
  in_home "rm -f ways-[12].out"
  run -0 in_home "$sbatch_wait --array=1-2 -o ways-%a.out --export=NONE --container-image=$image ways.sh;
    cat ways-1.out ways-2.out"
  output=$(grep -v ' for this job$' <<< "$output" | without_progress)
  expect_came image 0 2
}

@test "a job that is requeued, whatever --export lets through" {
  in_home 'rm -f ways-runs ways.out; cat > ways-again.sh' <<'END'
#!/bin/bash
{ only-in-image || echo on the node; } >> /home/alice/ways-runs
(( $(wc -l < /home/alice/ways-runs) == 2 )) || sleep 600
END
  in_home "sbatch -Q --requeue -J ways -w n1 -o ways.out --export=NONE --container-image=$image \
    --container-mounts=/home/alice ways-again.sh"
  wait_until 60 alice test -s ways-runs
  job=$(alice squeue --noheader -n ways -o %A)
  root scontrol requeue "$job"
  is_pending() { [[ $(root squeue --noheader -j "$job" -o %T) == PENDING ]]; }
  wait_until 60 is_pending
  # As in lifecycle.bats: credentials are told apart by whole seconds.
  sleep 1.1
  ended_after_another_start() {
    root scontrol update "jobid=$job" StartTime=now &> /dev/null || true
    [[ $(alice grep -c . ways-runs) == 2 ]] && no_jobs
  }
  wait_until 90 ended_after_another_start
  run -0 in_home 'cat ways-runs'
  expect_came image 0 2
}

@test "a heterogeneous batch job: the image of the first component, and no other one" {
  local one=$'#!/bin/bash\n#SBATCH -n1\n' two=$'#SBATCH hetjob\n#SBATCH -n1\n'
  local with="#SBATCH --container-image=$image"$'\n' run_it=$'only-in-image 2> /dev/null || echo on the node\n'
  submitted_text() { in_home 'cat > ways-het.sh' <<< "$1"; batch "$sbatch_wait" -o ways.out ways-het.sh; }
  submitted_text "$one$with$two$run_it"
  expect_came image 0
  # The same once more says nothing else.
  submitted_text "$one$with$two$with$run_it"
  expect_came image 0
  next=$(next_job)
  submitted_text "$one$two$with$run_it"
  expect_refused "--container-image: a batch script runs in the first component .* srun --het-group=1"
  submitted_text "$one$with$two#SBATCH --container-image=$registry/debian:zstd"$'\n'"$run_it"
  expect_refused "--container-image: a batch script runs in the first component"
}

@test "scrontab refuses the options: it would drop them" {
  # Of a release that comes without the command, its name: that is how the plugin knows it.
  step "exec -a scrontab sbatch --container-image=$image ways.sh"
  expect_came nowhere 1
  expect_output_like 'scrontab drops --container-image.*srun --container-image'
  step "exec -a scrontab sbatch --mig=1g.10gb ways.sh"
  expect_came nowhere 1
  expect_output_like 'scrontab drops --mig,'
  if alice bash -c 'command -v scrontab' > /dev/null; then
    in_home "printf '#SCRON --container-image=$image\n0 0 1 1 * /home/alice/ways.sh\n' > ways.cron"
    step 'scrontab ways.cron < /dev/null'
    expect_failure
    expect_output_like 'scrontab drops --container-image.*srun --container-image'
    run alice scrontab -l
    [[ $output != *ways.sh* ]]
  fi
  expect_equal "$(next_job)" "$next"
}

@test "srun, whatever --export lets through, and by a variable" {
  local form name
  for form in '' --export=ALL --export=NONE --export=NIL --export=FOO=1 --export=HOME,PATH; do
    step "srun -w n1 $form --container-image=$image --container-mounts=./ways.sh:/ways.sh /ways.sh"
    expect_came image 0
  done
  for name in BERTH_CONTAINER_IMAGE PYXIS_CONTAINER_IMAGE; do
    step "$name=$image srun -w n1 --export=NONE only-in-image"
    expect_came image 0
  done
}

@test "the parts of a heterogeneous step have one digest, which was asked for once" {
  local digest
  digest=$(manifest_digest 12)
  # What a node lacks it pulls, which asks as well.
  run -0 alice srun -N2 --container-image="$image" true
  mark_log
  step "srun -Q -n1 --container-image=$image sh -c 'echo \$SLURM_BERTH_FROZEN' : -n1 sh -c 'echo \$SLURM_BERTH_FROZEN'"
  expect_equal "$output" "$image $digest"$'\n'"$image $digest"
  expect_equal "$(count_since '(HEAD|GET)' /v2/debian/manifests/)" 1
  step "srun -Q -n1 sh -c 'echo \$SLURM_BERTH_FROZEN' : -n1 --container-image=$image sh -c 'echo \$SLURM_BERTH_FROZEN'"
  expect_equal "$output" "$image $digest"$'\n'"$image $digest"
  step "salloc -Q -n1 : -n1 srun -Q --het-group=0,1 --container-image=$image sh -c 'echo \$SLURM_BERTH_FROZEN'"
  expect_equal "$output" "$image $digest"$'\n'"$image $digest"
}

@test "salloc: its steps run in the image, and those with an empty value on the node, without a word" {
  step "salloc -Q -w n1 --container-image=$image srun only-in-image"
  expect_came image 0
  local none
  for none in --container-image= '--container-image= --container-workdir=/opt'; do
    step "salloc -Q -w n1 --container-image=$image --container-workdir=/srv srun $none ./ways.sh"
    expect_came node 0
  done
  step "salloc -Q -w n1 --container-image=$image srun -w n1 --container-image= bash -c \
    'echo \${SLURM_BERTH_OPTIONS-none}'"
  expect_equal "$output" none
  step "BERTH_CONTAINER_IMAGE=$image srun -w n1 --container-image= ./ways.sh"
  expect_came node 0
  variables=(BERTH_CONTAINER_IMAGE="$image")
  submitted --container-image= ways.sh
  expect_came node 0
}

@test "salloc --no-shell says that its image goes nowhere; a step by --jobid counts its own" {
  step "salloc -Q -w n1 --no-shell -J ways --container-image=$image"
  expect_status 0
  expect_output_like 'berth: with --no-shell .* give them to each srun --jobid'
  local job
  job=$(alice squeue --noheader -n ways -o %A)
  step "srun --jobid=$job ./ways.sh"
  expect_came node 0
  step "srun --jobid=$job --container-image=$image only-in-image"
  expect_came image 0
  alice scancel "$job"
  step "SALLOC_NO_SHELL=1 BERTH_CONTAINER_IMAGE=$image salloc -Q -w n1 -J ways"
  expect_output_like 'berth: with --no-shell'
  alice scancel -n ways
}

@test "srun --overlap into a batch job: a script in a container is told of, unless the step asks for none" {
  in_home "rm -f ways-go"
  in_home "sbatch -Q -J ways -w n1 -o ways.out --export=NONE --container-image=$image --wrap 'only-in-image; sleep 600'"
  in_container() { alice grep -q 'only in the image' ways.out; }
  wait_until 60 in_container
  local job
  job=$(alice squeue --noheader -n ways -o %A)
  step "srun --jobid=$job --overlap ./ways.sh"
  expect_came node 1
  expect_output_like "berth: n1: this step runs on the node, and its job's batch script in a container"
  step "srun --jobid=$job --overlap --container-image= ./ways.sh"
  expect_came node 0
  step "srun --jobid=$job --overlap --container-image=$image only-in-image"
  expect_came image 0
  # What enters the container is on the node on purpose.
  step "berth exec --job $job.batch -- only-in-image"
  expect_came image 0
  # From a client without the plugin, in an environment like a container's.
  step "SLURM_CONF=/home/alice/ways-slurm.conf SLURM_BERTH_OPTIONS=container-image \
    srun --jobid=$job --overlap ./ways.sh"
  expect_came node 1
  alice scancel "$job"
  wait_until 60 no_jobs
  in_home "sbatch -Q -J ways -w n1 -o ways.out --wrap 'echo plain; sleep 600'"
  is_plain() { alice grep -q plain ways.out; }
  wait_until 60 is_plain
  job=$(alice squeue --noheader -n ways -o %A)
  step "srun --jobid=$job --overlap ./ways.sh"
  expect_came node 0
  cancel_everything
}

@test "a submission from a container's environment by a client without the plugin is another one" {
  step "SLURM_CONF=/home/alice/ways-slurm.conf SLURM_BERTH_OPTIONS=container-image \
    $sbatch_wait -w n1 -o ways.out ways.sh; cat ways.out"
  expect_came node 0
}

@test "sbatch --quiet says nothing of the digest" {
  run -0 in_home "sbatch -Q -o ways.out --container-image=$image --wrap true 2>&1"
  expect_equal "$output" ""
  wait_until 60 no_jobs
}

@test "an image that its registry does not have is told of at submission, or refused" {
  local missing=$registry/debian:not-there
  run -0 in_home "sbatch -o ways.out --container-image=$missing --wrap true"
  expect_equal "$(count 'berth: ')" 1
  expect_output_like "berth: image $missing: not found by the registry .*; the job is submitted all the same"
  wait_until 60 no_jobs
  next=$(next_job)
  run in_home "BERTH_SLURM_UNKNOWN_IMAGE=refuse sbatch -o ways.out --container-image=$missing --wrap true"
  expect_refused "not found by the registry .*; the job is not submitted"
  # Without an answer nobody knows.
  run -0 in_home "BERTH_SLURM_UNKNOWN_IMAGE=refuse sbatch -o ways.out --container-image=127.0.0.1:1/debian:12 \
    --wrap true"
  expect_equal "$(count 'berth: ')" 0
  wait_until 60 no_jobs
}

@test "an image that Slurm has cut at # is refused at submission, and a quoted one is not" {
  in_home "sed '2i #SBATCH --container-image=$registry#debian:12' ways.sh > ways-cut.sh"
  submitted ways-cut.sh
  expect_refused "--container-image: $registry is a registry without an image: Slurm cuts .* quote the value"
  in_home "sed '2i #SBATCH --container-image=\"$registry#debian:12\"' ways.sh > ways-cut.sh"
  submitted ways-cut.sh
  expect_came image 0
}
