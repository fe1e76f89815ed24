#!/usr/bin/env bats
# --container-entrypoint: the image's entrypoint runs before the tasks, and what it makes of the environment stays.
load helper

# shellcheck disable=SC2154
entry="--container-image=$registry/debian:entry --container-entrypoint"

entry() { alice srun -w n1 --container-image="$registry/debian:entry" "$@"; }

# shellcheck disable=SC2016
look='echo "${FROM_ENTRYPOINT-none} ${IMAGE_VAR-gone} ${PATH%%:*}"; ! test -e /entrypoint-ran || echo ran'

@test "off by default and with --no-container-entrypoint" {
  run -0 entry --no-container-entrypoint sh -c "$look"
  expect_equal "$output" "none from-image /usr/local/sbin"
  run -0 entry sh -c "$look"
  expect_equal "$output" "none from-image /usr/local/sbin"
}

@test "its changes of the environment reach every task; it runs once a step, and says nothing" {
  run -0 entry -n2 --container-entrypoint sh -c "$look"
  # The lines of two tasks come in any order.
  expect_equal "$(sort <<< "$output")" $'ran\nran\nunset gone /entry\nunset gone /entry'
}

@test "of root inside, too" {
  run -0 entry -n2 --container-entrypoint --container-remap-root sh -c "$look"
  expect_equal "$(sort <<< "$output")" $'ran\nran\nunset gone /entry\nunset gone /entry'
}

# As many sockets of tasks put the entrypoint's pipes at the numbers that it is to find them under.
@test "80 tasks of a node all get what the entrypoint made" {
  # shellcheck disable=SC2016
  run -0 entry -n80 --overcommit --container-entrypoint sh -c 'echo "$FROM_ENTRYPOINT"'
  expect_equal "$(sort <<< "$output" | uniq -c | xargs)" "80 unset"
}

@test "by variable, by plugstack.conf's name of the key, and the flag wins" {
  run -0 in_home \
    "PYXIS_CONTAINER_ENTRYPOINT=1 srun -w n1 --container-image=$registry/debian:entry sh -c 'echo \$FROM_ENTRYPOINT'"
  expect_equal "$output" unset
  run -0 in_home \
    "PYXIS_CONTAINER_ENTRYPOINT=1 srun -w n1 --no-container-entrypoint --container-image=$registry/debian:entry \
      sh -c 'echo \$FROM_ENTRYPOINT'"
  expect_equal "$output" ""
  run -0 in_home \
    "BERTH_DEFAULTS_ENTRYPOINT=true srun -w n1 --container-image=$registry/debian:entry sh -c 'echo \$FROM_ENTRYPOINT'"
  expect_equal "$output" unset
}

@test "of the job's variables it sees those of --container-env, and these keep the job's value" {
  run -0 in_home \
    "ENTRY_VAR=job srun -w n1 --container-image=$registry/debian:entry --container-entrypoint \
      sh -c 'echo \$FROM_ENTRYPOINT'"
  expect_equal "$output" unset
  run -0 in_home \
    "ENTRY_VAR=job IMAGE_VAR=mine srun -w n1 --container-image=$registry/debian:entry --container-entrypoint \
      --container-env=ENTRY_VAR,IMAGE_VAR \
      sh -c 'echo \$FROM_ENTRYPOINT \$IMAGE_VAR'"
  expect_equal "$output" "job mine"
}

@test "--container-entrypoint-log shows what it prints, once" {
  run -0 entry -n2 --container-entrypoint --container-entrypoint-log true
  expect_equal "$(grep -c '== ENTRYPOINT ==' <<< "$output")" 1
  expect_output_like "to the standard error"
}

@test "one that fails, ignores its command or reads its input: one line, or no harm" {
  run in_home \
    "ENTRY_DO=fail srun -w n1 -n2 --container-image=$registry/debian:entry --container-entrypoint \
      --container-env=ENTRY_DO true"
  expect_failure
  expect_one_error_line
  expect_output_like \
    "entrypoint /entry.sh ended with code 3 without running the command; its last line: cannot go on; \
.*--no-container-entrypoint"
  run in_home \
    "ENTRY_DO=ignore srun -w n1 --container-image=$registry/debian:entry --container-entrypoint \
      --container-env=ENTRY_DO true"
  expect_failure
  expect_output_like "ended with code 0 without running the command"
  run in_home "ENTRY_DO=fail srun -w n1 --container-name=entry-test $entry --container-env=ENTRY_DO true"
  expect_output_like "entrypoint /entry.sh ended with code 3 without running the command"
  run -0 in_home "echo input | ENTRY_DO=stdin srun -w n1 $entry --container-env=ENTRY_DO sh -c \
      'echo \$READ; cat'"
  expect_equal "$output" $'nothing\ninput'
}

hang_runs() { [[ -n $(root squeue --noheader --name=hang --states=RUNNING) ]]; }

# bats test_tags=cgroup
@test "one that never returns: the step can be cancelled, and nothing stays" {
  in_home "ENTRY_DO=hang srun -w n1 -J hang $entry --container-env=ENTRY_DO true" > /dev/null 2>&1 \
    3>&- &
  wait_until 20 hang_runs
  sleep 1
  root scancel -n hang
  wait "$!" || true
  expect_no_leftovers
}

@test "hostile: one that names a process of the user outside of the container learns nothing of it" {
  for name in "" --container-name=entry-test; do
    run in_home \
      "SECRET=hunter2 sleep 60 & ENTRY_PID=\$! ENTRY_DO=spy \
        srun -w n1 $name --container-image=$registry/debian:entry --container-entrypoint \
      --container-env=ENTRY_DO,ENTRY_PID printenv; kill \$!"
    expect_output_like "entrypoint /entry.sh names process [0-9]+ as its command, which is not in the container"
    run ! grep hunter2 <<< "$output"
  done
}

# bats test_tags=cgroup
@test "hostile: one that prints without an end, or without a line, holds up nothing" {
  for how in chatter zeros; do
    run -0 in_home "ENTRY_DO=$how timeout $((30 * slowness)) srun -w n1 $entry --container-env=ENTRY_DO sh -c 'echo on'"
    expect_equal "$output" on
  done
  expect_no_leftovers
}

@test "an image without one, and one that is given by hand" {
  run -0 contained --container-entrypoint echo plain
  expect_equal "$output" plain
  # shellcheck disable=SC2016
  run -0 entry /entry.sh sh -c 'echo $FROM_ENTRYPOINT'
  expect_output_like "unset"
}

@test "in a container with a name each step runs it for itself" {
  run -0 entry --container-name=entry-test --container-entrypoint sh -c "$look"
  expect_equal "$output" $'unset gone /entry\nran'
  run -0 alice srun -w n1 --container-name=entry-test sh -c "$look"
  expect_equal "$output" $'none from-image /usr/local/sbin\nran'
  run -0 alice srun -w n1 berth rm entry-test
}
