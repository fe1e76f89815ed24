#!/usr/bin/env bats
# bats file_tags=newer
# namespace/linux with CLONE_NEWUSER: a job's containers are in the user namespace that Slurm gives to the job, and
# those of other jobs are not to be entered out of it. Slurm has it since 25.11: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --cgroup --with namespaces --with clone-newuser; }

setup() { cancel_everything; }

# A job in the container `shared`, until it is cancelled: start_first, which sets $first and $job.
start_first() {
  in_home 'rm -f started'
  contained --container-name=shared --container-mounts=/home/alice \
    sh -c 'touch /home/alice/started; sleep 600' > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  first=$!
  wait_until 20 alice test -e started
  job=$(alice squeue --noheader -o %A)
}

@test "clone newuser: Slurm gives each job a user namespace, in which every user is" {
  run -0 alice srun -w n1 sh -c 'readlink /proc/self/ns/user; id -u; cat /proc/self/uid_map'
  [[ $output != *"$(root readlink /proc/self/ns/user)"* ]] || fail "$output"
  expect_equal "$(tail -n +2 <<< "$output" | xargs)" '2001 0 0 4294967295'
}

@test "clone newuser: containers start, with mounts and as root inside, and have exit codes and signals" {
  in_home 'echo of the home > seen'
  run -0 contained --container-mounts=/home/alice:/mounted sh -c 'only-in-image; id -u; cat /mounted/seen'
  expect_equal "$output" $'only in the image\n2001\nof the home'
  run -0 contained --container-remap-root sh -c 'id -u; touch /opt/written && stat -c %u /opt/written'
  expect_equal "$output" $'0\n0'
  run -7 contained sh -c 'exit 7'
  run contained sh -c 'kill -KILL $$'
  expect_status 137
  run -0 in_home "$sbatch_wait -w n1 -o out --container-image=$image --wrap only-in-image 2> /dev/null; cat out"
  expect_equal "$(without_progress <<< "$output")" 'only in the image'
  expect_no_leftovers
  expect_nodes_up
}

@test "clone newuser: the steps of a job share its named container, which the next job has, too" {
  in_home 'rm -f there go'
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun --container-name=kept --container-image=$image --container-mounts=/home/alice sh -c \"
      echo written > /opt/file; touch /home/alice/there; until test -e /home/alice/go; do sleep 0.1; done\" &
    until test -e there; do sleep 0.1; done
    srun --overlap --container-name=kept sh -c \"cat /opt/file; touch /home/alice/go\"; wait
    srun --container-name=kept cat /opt/file'"
  expect_equal "$output" $'written\nwritten'
  run -0 alice srun -w n1 --container-name=kept cat /opt/file
  expect_equal "$output" written
  alice srun -w n1 berth rm kept
  expect_no_leftovers
}

@test "clone newuser: out of another job a container that runs is not entered, which is one line that says what to do" {
  start_first
  run alice srun -w n1 --container-name=shared only-in-image
  expect_failure
  expect_one_error_line
  expect_output_like 'CLONE_NEWUSER in namespace.yaml.*give the container another name in each job'
  run alice srun -w n1 berth exec shared only-in-image
  expect_failure
  expect_one_error_line
  expect_output_like 'CLONE_NEWUSER in namespace.yaml.*give the container another name in each job'
  root scancel "$job"
  wait_until 20 step_over "$first"
  run -0 alice srun -w n1 --container-name=shared only-in-image
  expect_equal "$output" 'only in the image'
  alice srun -w n1 berth rm shared
  expect_no_leftovers
  expect_nodes_up
}

@test "clone newuser: of scope job each job has its own container, which goes with it" {
  local run_it="BERTH_DEFAULTS_CONTAINER_SCOPE=job srun -w n1 --container-name=mine --container-image=$image"
  in_home 'rm -f started'
  in_home "$run_it --container-mounts=/home/alice sh -c 'touch /home/alice/started; sleep 600'" \
    > "$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  local first=$!
  wait_until 20 alice test -e started
  run -0 in_home "$run_it only-in-image"
  expect_output_like 'only in the image'
  cancel_everything
  wait_until 20 step_over "$first"
  wait_until 20 no_containers_of_jobs || fail "$(containers_of_jobs)"
  expect_no_leftovers
  expect_nodes_up
}

@test "clone newuser: after twenty jobs nothing is there that was not there before" {
  expect_twenty_jobs_leave_nothing
}

@test "clone newuser: doctor says what it means" {
  run -0 alice srun -w n1 berth doctor
  expect_output_like 'namespace.yaml has CLONE_NEWUSER: the steps of other jobs cannot enter a named container'
}
