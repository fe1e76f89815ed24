#!/usr/bin/env bats
# The words after the plugin's name in plugstack.conf, read by a real srun and slurmstepd.
load helper

words=/etc/slurm/plugstack.conf.d/berth.conf

setup() {
  root cp "$words" "$words.kept"
}

teardown() {
  root mv "$words.kept" "$words"
  cancel_everything
  alice rm -rf slurm.conf plugstack.conf inside.sh started ended
  root rm -rf /usr/local/bin/spy /tmp/spied
}

with_words() { root bash -c "echo 'required spank_berth.so $1' > $words"; }

# srun and salloc of alice read these lines after the box's own slurm.conf.
with_own_conf() {
  in_home 'cat /etc/slurm/slurm.conf - > slurm.conf' <<< "$1"
}

@test "execute_entrypoint: the image's entrypoint runs unless a step says otherwise" {
  with_words execute_entrypoint=yes
  # shellcheck disable=SC2016
  look='echo ${FROM_ENTRYPOINT-none}'
  run -0 alice srun -w n1 --container-image="$registry/debian:entry" sh -c "$look"
  expect_equal "$output" unset
  run -0 alice srun -w n1 --container-image="$registry/debian:entry" --no-container-entrypoint sh -c "$look"
  expect_equal "$output" none
}

@test "sbatch_support=no: srun alone has the options" {
  with_words sbatch_support=no
  run alice sbatch --container-image="$image" --wrap true
  expect_failure
  expect_output_like "unrecognized option '--container-image"
  run -0 contained true
}

@test "helper: another program of root's; one that is missing is one line, and plain steps run" {
  with_words helper=/nowhere/berth
  run contained -n2 true
  expect_failure
  expect_one_error_line
  expect_output_like "looking for the helper /nowhere/berth \(helper= in plugstack.conf\)"
  run -0 alice srun -w n1 true
  expect_nodes_up
}

@test "an unknown word: srun does not start and lists the known ones; slurmstepd ends containers' steps alone" {
  in_home "echo 'required spank_berth.so' > plugstack.conf"
  with_own_conf 'PlugStackConfig=/home/alice/plugstack.conf'
  with_words helpr=/usr/bin/berth
  run contained true
  expect_failure
  expect_output_like "spank_berth.so has no setting helpr; the settings are: helper=PATH"
  run alice env SLURM_CONF=/home/alice/slurm.conf srun -w n1 -n2 --container-image="$image" true
  expect_failure
  expect_one_error_line
  expect_output_like "spank_berth.so has no setting helpr"
  run -0 alice env SLURM_CONF=/home/alice/slurm.conf srun -w n1 true
  expect_nodes_up
}

@test "container_scope=job: the name ends with the job, by its user with the job's group" {
  root bash -c "cat > /usr/local/bin/spy; chmod 755 /usr/local/bin/spy" <<'END'
#!/bin/sh
if [ "$1" = end-job ]; then id -u >> /tmp/spied; id -g >> /tmp/spied; fi
exec /usr/bin/berth "$@"
END
  root install -m 666 /dev/null /tmp/spied
  with_words "container_scope=job helper=/usr/local/bin/spy"
  # shellcheck disable=SC2016
  run -0 in_home "salloc -w n1 bash -c '
    srun --container-image=$image --container-name=scoped touch /opt/mine
    srun --container-name=scoped test -e /opt/mine && echo kept' 2> /dev/null"
  expect_equal "$output" kept
  run alice srun -w n1 --container-name=scoped true
  expect_failure
  expect_output_like "scoped: there is none of that name"

  # Of the folder in /run its user chooses the group.
  in_home "salloc -w n1 bash -c 'srun --container-image=$image --container-name=scoped true; touch started; \
    until test -e ended; do sleep 0.1; done'" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 30 alice test -e started
  root bash -c "chgrp 4242 /run/berth/$(alice id -u); : > /tmp/spied"
  alice touch ended
  wait "$!"
  wait_until 20 no_jobs
  wait_until 20 root test -s /tmp/spied
  expect_equal "$(root tail -n 2 /tmp/spied | xargs)" "$(alice id -u) $(alice id -g)"
}

@test "an interactive step's container is joined as JOB.interactive" {
  in_home 'echo "echo mine > /opt/mine; touch started; until test -e ended; do sleep 0.1; done" > inside.sh'
  with_own_conf "LaunchParameters=use_interactive_step
InteractiveStepOptions=\"--interactive --container-image=$image --container-mounts=/home/alice \
--container-workdir=/home/alice sh inside.sh\""
  in_home 'SLURM_CONF=/home/alice/slurm.conf salloc -w n1' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  interactive=$!
  wait_until 30 alice test -e started
  job=$(root squeue --noheader --states=RUNNING --format %A)
  run -0 alice srun --jobid="$job" --overlap --container-name="$job.interactive" cat /opt/mine
  expect_equal "$output" mine
  alice touch ended
  wait "$interactive"
  expect_no_leftovers
}
