#!/usr/bin/env bats
# What users ask of srun and sbatch that touches the start of a step, with an extern step as most sites have it.
load site

setup_file() { site_up --cgroup --with contain; }

@test "options: --signal=B reaches the batch script in its container" {
  in_home 'rm -f out; cat > job.sh' <<'END'
#!/bin/bash
trap 'echo got it; only-in-image; exit 3' USR1
echo ready
while :; do sleep 0.1; done
END
  job=$(in_home "sbatch --parsable -w n1 -t 1 --signal=B:USR1@60 -o out --container-image=$image job.sh")
  wait_until 90 no_jobs
  expect_equal "$(in_home 'cat out')" $'ready\ngot it\nonly in the image'
  [[ $(root scontrol show job "$job") == *ExitCode=3:0* ]] || fail "$(root scontrol show job "$job")"
  expect_no_leftovers
}

@test "options: --signal reaches the tasks, and not the file server" {
  run -0 alice srun -w n1 -n2 -t 1 --signal=USR2@60 --container-image="$image" bash -c \
    'trap "cat /usr/bin/* > /dev/null; only-in-image; exit 0" USR2; while :; do sleep 0.1; done'
  expect_equal "$output" $'only in the image\nonly in the image'
  expect_no_leftovers
}

@test "options: --het-group: each part of a heterogeneous job in its container" {
  # Slurm looks at such jobs every half a minute.
  run -0 in_home "salloc -Q -n1 : -n2 bash -c 'srun --het-group=0,1 --container-image=$image only-in-image
    srun --het-group=1 --container-image=$image sh -c \"echo \\\$SLURM_PROCID\"'"
  expect_equal "$(sort <<< "$output" | xargs)" "0 1 only in the image only in the image only in the image"
  expect_no_leftovers
}

@test "options: --bcast: the program that it has brought runs where it is mounted, else one line says that it is missing" {
  in_home "printf '#!/bin/sh\necho brought; only-in-image\n' > program; chmod 755 program"
  run -0 in_home "srun -N2 --bcast=/var/tmp/berth-bcast --container-image=$image \
    --container-mounts=/var/tmp/berth-bcast ./program"
  expect_equal "$(sort <<< "$output")" $'brought\nbrought\nonly in the image\nonly in the image'
  run -127 in_home "srun -w n1 --bcast=/var/tmp/berth-bcast --container-image=$image ./program"
  expect_one_error_line
  expect_output_like "/var/tmp/berth-bcast"
  run -0 alice srun -N2 rm -f /var/tmp/berth-bcast
}

@test "options: an array of 100, four at once on a node, leaves nothing" {
  in_home "rm -rf array; mkdir array; sbatch --parsable --array=1-100%8 -c4 -o array/%a --container-image=$image \
    --wrap 'only-in-image' 2> /dev/null"
  wait_until 240 no_jobs
  expect_equal "$(in_home 'cat array/*' | without_progress | sort | uniq -c | xargs)" "100 only in the image"
  expect_no_leftovers
  expect_nodes_up
  expect_equal "$(job_groups)" ""
}
