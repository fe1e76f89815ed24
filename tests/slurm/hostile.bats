#!/usr/bin/env bats
# What somebody may try with the options, the environment and the names of things.
load helper

# Where a shell read it, this would leave a file.
trap_text='$(touch /home/alice/owned);`touch /home/alice/owned`|touch /home/alice/owned&'

setup() {
  in_home 'rm -rf owned trap; mkdir trap'
}

teardown() {
  cancel_after_failure
  run ! alice test -e owned
  expect_nodes_up
}

@test "shell metacharacters in the value of each option run nothing, and the step fails" {
  for option in image mounts workdir env name save unshare; do
    for value in "$trap_text" "/$trap_text" "./$trap_text:/x" "x:$trap_text"; do
      [[ $option == image ]] || others=(--container-image="$image")
      run ! alice srun -w n1 "${others[@]}" --container-"$option"="$value" no-such-command
      expect_failure
    done
  done
}

@test "shell metacharacters in the variables of options run nothing" {
  for name in IMAGE MOUNTS WORKDIR ENV NAME SAVE MOUNT_HOME REMAP_ROOT WRITABLE ENTRYPOINT UNSHARE; do
    run ! alice env "BERTH_CONTAINER_$name=$trap_text" srun -w n1 --container-image="$image" no-such-command
    expect_failure
  done
}

@test "hostile row 55: a path of metacharacters is a path" {
  run -0 alice bash -c 'cd trap && mkdir "a;touch b|c&\$(d)" && echo inside > "a;touch b|c&\$(d)/x"'
  run -0 contained '--container-mounts=/home/alice/trap/a;touch b|c&$(d):/a;touch b|c&$(d)' cat '/a;touch b|c&$(d)/x'
  expect_equal "$output" inside
}

@test "hostile row 56: names of containers that are paths, options or too long are refused where the job is submitted" {
  before=$(next_job)
  for name in ../x a/b -x .. . a:b $'a\nb' $'a\e[2J' "$(printf 'a%.0s' {1..300})" :exec x:wrong; do
    run alice srun -w n1 --container-image="$image" --container-name="$name" true
    expect_failure
  done
  expect_equal "$(next_job)" "$before"
  # An empty one asks for none.
  names=$(alice srun -w n1 berth ps --json | jq -c '[.containers[].name]')
  run -0 alice srun -w n1 --container-image="$image" --container-name= true
  expect_equal "$(alice srun -w n1 berth ps --json | jq -c '[.containers[].name]')" "$names"
}

@test "hostile row 53: a target below a link that a mount brings stays in the container" {
  in_home 'ln -s /var/tmp trap/absolute; ln -s ../../../../../../var/tmp trap/relative;
    ln -s /proc/1/root/var/tmp trap/magic'
  for link in absolute relative; do
    run -0 contained --container-mounts="/home/alice/trap:/data,/home/alice:/data/$link/berth-escape" \
      test -d /var/tmp/berth-escape/trap
    run ! root test -e /var/tmp/berth-escape
  done
  run contained --container-mounts="/home/alice/trap:/data,/home/alice:/data/magic/berth-escape" true
  expect_failure
  expect_one_error_line
  run ! root test -e /var/tmp/berth-escape
}

@test "hostile row 63: a working directory behind a magic link of a mount is refused" {
  in_home 'ln -s /proc/1/root trap/magic; ln -s /proc/self/cwd trap/own'
  for link in magic own; do
    run contained --container-mounts=/home/alice/trap:/data --container-workdir="/data/$link" pwd
    expect_failure
  done
}

@test "hostile row 57: nothing of the job's environment reaches the helper but through the request" {
  in_home 'rm -f started'
  in_home "LD_LIBRARY_PATH=/home/alice BASH_ENV=/home/alice/trap/x http_proxy=http://127.0.0.1:1 \
    GCONV_PATH=/home/alice srun -w n1 --container-image=$image \
    --container-mounts=/home/alice sh -c 'touch /home/alice/started; sleep 600'" > /dev/null 2>&1 3>&- &
  wait_until 20 alice test -e started
  helper=$(berth_processes | head -n 1)
  run -0 bash -c "tr '\\0' '\\n' < $(box_proc)/$helper/environ"
  expect_equal "$output" PATH=/usr/local/bin:/usr/bin:/bin
  cancel_everything
}

@test "a value with escape codes is shown without them" {
  run contained --container-mounts=$'/not/there\e[31m:/x' true
  expect_failure
  [[ $output != *$'\e'* ]]
  expect_output_like 'not/there.x1b\[31m'
}

@test "a variable's name is data: no option of one variable hides in another" {
  run alice env $'HARMLESS=x\nBERTH_CONTAINER_MOUNTS=/etc/shadow:/shadow' srun -w n1 --container-image="$image" \
    test -e /shadow
  expect_failure
  run -0 alice env $'HARMLESS=x\nPYXIS_CONTAINER_IMAGE=no.such.registry/x' srun -w n1 true
}

@test "settings of ours in the environment name no files that the user may not read, and no other user's store" {
  root bash -c 'install -d -m 700 /var/lib/secret && echo top > /var/lib/secret/s'
  run alice env REGISTRY_AUTH_FILE=/var/lib/secret/s srun -w n1 --container-image="$registry/debian:tar" true
  [[ $output != *top* ]]
  run -0 bob srun -w n1 --container-image="$image" true
  run alice env BERTH_STORE_PATH=/var/lib/berth/2002 srun -w n1 --container-image="$image" true
  expect_failure
  expect_one_error_line
  expect_output_like "/var/lib/berth/2002"
  run -0 root bash -c "find $state/nodes/n1/store/2002 ! -user bob | wc -l"
  expect_equal "$output" 0
}
