#!/usr/bin/env bats
# The rest of a job: what sites and users do around the tasks behaves as without a container.
load helper

# Where the box's Slurm has its commands, as programs on the node find them.
scontrol() { root bash -c 'command -v scontrol'; }

@test "TaskProlog runs on the node, for each task: its variables, and what it prints" {
  run -0 --separate-stderr alice env BOX_PROLOG=GONE GONE=1 srun -w n1 -n2 --label --container-image="$image" sh -c \
    'echo "$FROM_PROLOG:$GONE:$SLURM_SCRIPT_CONTEXT"; ! command -v scontrol'
  expect_equal "$(sort <<< "$output")" \
    "$(printf '%s\n' "0: $(scontrol):0::prolog_task" '0: prolog of n1' "1: $(scontrol):1::prolog_task" \
      '1: prolog of n1')"
  expect_equal "$(grep -v 'exit code' <<< "$stderr")" ""
}

@test "a TaskProlog that fails ends the task with its code, and says so" {
  run -7 alice env BOX_PROLOG=fail srun -w n1 --container-image="$image" true
  expect_output_like "berth: n1: the site's TaskProlog /etc/slurm/task_prolog failed with status 7"
}

@test "TaskEpilog runs on the node after each task" {
  run -0 in_home "rm -f epilog; BOX_EPILOG=/home/alice/epilog srun -w n1 -n2 --container-image=$image true; sort epilog"
  expect_equal "$output" "0 alice $(scontrol)"$'\n'"1 alice $(scontrol)"
}

@test "TMPDIR: made in the container where that is possible, else /tmp without complaints" {
  for folder in /tmp/own:/tmp/own /var/tmp:/var/tmp /not/in/the/image:/tmp; do
    run -0 alice env TMPDIR="${folder%:*}" srun -w n1 -n2 --container-image="$image" sh -c \
      'test -d "$TMPDIR" && echo $TMPDIR'
    expect_equal "$output" "${folder#*:}"$'\n'"${folder#*:}"
  done
}

@test "--chdir, --export, --propagate and --cpu-bind do what they do without a container" {
  what='echo $ONE-$TWO $(ulimit -n) $(ulimit -c) $(grep Cpus_allowed_list /proc/self/status)'
  options=(--export=ONE=1,PATH --propagate=NOFILE,CORE --cpu-bind=none)
  run -0 --separate-stderr in_home "ulimit -n 777; ulimit -Sc 0; TWO=2 srun -w n1 ${options[*]} sh -c '$what'"
  plain=$output
  run -0 --separate-stderr in_home \
    "ulimit -n 777; ulimit -Sc 0; TWO=2 srun -w n1 ${options[*]} --container-image=$image sh -c '$what'"
  expect_equal "$output" "$plain"
  expect_output_like "^1- 777 0"
  run -0 in_home \
    "mkdir -p data; echo here > data/file;
      srun -w n1 --chdir=/home/alice/data --container-image=$image --container-mounts=./file:/opt/file \
      cat /opt/file"
  expect_equal "$output" here
}

@test "--label, -u, --input and --multi-prog" {
  run -0 in_home \
    "printf '0 echo zero\n1 only-in-image\n' > multi;
      srun -w n1 -n2 -u --label --multi-prog --container-image=$image multi"
  expect_equal "$(sort <<< "$output")" $'0: zero\n1: only in the image'
  # The last line needs no end.
  run -0 in_home "printf '# a line\n\n0-1\tonly-in-image' > multi;
    srun -w n1 -n2 --multi-prog --container-image=$image multi"
  expect_equal "$output" $'only in the image\nonly in the image'
  run -0 in_home "printf '* only-in-image' > multi; srun -w n1 --multi-prog --container-image=$image multi"
  expect_equal "$output" "only in the image"
  run -0 in_home "echo text | srun -w n1 -n2 --label --input=1 --container-image=$image cat"
  expect_equal "$output" "1: text"
}

@test "--bcast to a folder: the program that it has brought runs where the folder is mounted, else one line names it" {
  in_home "rm -rf brought; mkdir brought; printf '#!/bin/sh\necho brought; only-in-image\n' > brought/program
    chmod 755 brought/program"
  for to in --bcast=/home/alice/brought/ --bcast; do
    run -0 in_home "cd brought; srun -N2 $to --container-image=$image --container-mounts=/home/alice/brought ./program"
    expect_equal "$(sort <<< "$output")" $'brought\nbrought\nonly in the image\nonly in the image'
  done
  run -127 in_home "cd brought; srun -w n1 --bcast --container-image=$image ./program"
  expect_one_error_line
  expect_output_like "running /home/alice/brought/: it is a folder, and srun --bcast has put no slurm_bcast_[0-9.]+_n1"
  in_home "rm -r brought"
}

@test "a core file is written where the task is, of any size where the limit is propagated" {
  run in_home \
    "rm -rf cores; mkdir cores; ulimit -c unlimited;
      srun -w n1 --propagate=CORE --container-image=$image --container-mounts=./cores:/cores \
      --container-workdir=/cores sh -c 'ulimit -c; kill -SEGV \$\$'"
  expect_failure
  expect_output_like "unlimited"
  # Some machines give cores to a program instead, whose business is not ours.
  if [[ $(cat /proc/sys/kernel/core_pattern) == core* ]]; then
    run -0 in_home 'ls cores'
    expect_output_like "^core"
  fi
}

@test "suspend stops the tasks and resume lets them go on; sattach shows what they print" {
  cancel_everything
  alice srun -w n1 -J ticking --container-image="$image" sh -c 'while :; do echo tick; sleep 0.1; done' \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 grep -q tick "$BATS_TEST_TMPDIR/out"
  job=$(alice squeue --noheader -n ticking -o %A)
  run timeout 2 "$box" run -u alice -- sattach "$job.0"
  expect_output_like "tick"
  root scontrol suspend "$job"
  sleep 0.5
  before=$(wc -l < "$BATS_TEST_TMPDIR/out")
  sleep 0.7
  expect_equal "$(wc -l < "$BATS_TEST_TMPDIR/out")" "$before"
  root scontrol resume "$job"
  grows() { (( $(wc -l < "$BATS_TEST_TMPDIR/out") > before )); }
  wait_until 10 grows
  cancel_everything
}

@test "a file that sbcast brought can be mounted" {
  run -0 --separate-stderr in_home "echo brought > file; salloc -Q -N2 bash -c \
      'sbcast -f file /var/tmp/berth-sbcast &&
        srun --container-image=$image --container-mounts=/var/tmp/berth-sbcast:/opt/file cat /opt/file;
      srun -N1 rm -f /var/tmp/berth-sbcast'"
  expect_equal "$output" $'brought\nbrought'
}

# SPANK has one value of an option for all of them.
@test "the parts of a heterogeneous job run in one image" {
  run -0 --separate-stderr alice srun -n1 --container-image="$image" only-in-image : -n2 --container-image="$image" \
    only-in-image
  expect_equal "$(sort <<< "$output" | uniq -c | xargs)" "3 only in the image"
  run alice srun -n1 --container-image="$image" true : -n1 --container-image="$registry/debian:zstd" true
  expect_failure
  expect_output_like "given twice"
}

@test "64 jobs of an array with one image: one pull for each store" {
  forget_images
  mark_log
  in_home "rm -rf array; mkdir array; sbatch --parsable --array=1-64 -n1 -o array/%a \
    --container-image=$registry/debian:zstd --wrap 'echo ran'"
  wait_until 90 no_jobs
  expect_equal "$(in_home 'cat array/*' | without_progress | sort | uniq -c | xargs)" "64 ran"
  for digest in $(curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' \
      "http://$registry/v2/debian/manifests/zstd" | jq -r '.layers[].digest'); do
    expect_equal "$digest $(count_since GET "/v2/debian/blobs/$digest")" "$digest 2"
  done
}

@test "slurm.client_in_container: a batch script in a container starts steps, also in containers" {
  run -0 in_home "cat > client.sh <<'END'
#!/bin/sh
only-in-image
squeue --noheader -j \$SLURM_JOB_ID -o %u
srun -N2 --container-image=$image only-in-image
END
BERTH_SLURM_CLIENT_IN_CONTAINER=1 $sbatch_wait -N2 -o client.out --container-image=$image client.sh; cat client.out"
  expect_equal "$(sort <<< "$output" | grep -v 'berth: ' | uniq -c | sed 's/^ *//')" $'1 alice\n3 only in the image'
}
