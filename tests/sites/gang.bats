#!/usr/bin/env bats
# Preemption by suspension: while a job is suspended its container stays, and others on the node start.
load site

setup_file() { site_up --cgroup --with gang; }

state_of() { root squeue --noheader -j "$1" -o %T; }
job_is() { [[ $(state_of "$1") == "$2" ]]; }

@test "gang: a suspended job goes on in its container when the other one has ended" {
  cancel_everything
  in_home 'rm -f ticks; cat > job.sh' <<'END'
#!/bin/bash
while [[ ! -e /home/alice/stop ]]; do
  cat /usr/bin/* > /dev/null && only-in-image >> /home/alice/ticks
  sleep 0.2
done
END
  in_home 'rm -f stop'
  job=$(in_home "sbatch --parsable -N2 -c16 -o out --container-image=$image --container-mounts=/home/alice \
    job.sh")
  wait_until 20 alice test -s ticks
  run -0 alice srun -p urgent -N2 -c16 --container-image="$image" sh -c 'sleep 1; only-in-image'
  expect_equal "$output" $'only in the image\nonly in the image'
  wait_until 40 job_is "$job" RUNNING
  before=$(in_home 'wc -l < ticks')
  goes_on() { (( $(in_home 'wc -l < ticks') > before )); }
  wait_until 20 goes_on
  in_home 'touch stop'
  wait_until 30 no_jobs
  expect_equal "$(in_home 'cat out')" ""
  expect_no_leftovers
  expect_nodes_up
}

@test "gang: a suspended job that is cancelled leaves nothing" {
  in_home 'rm -f stop ticks'
  job=$(in_home "sbatch --parsable -N2 -c16 -o out --container-image=$image --container-mounts=/home/alice \
    job.sh")
  wait_until 20 alice test -s ticks
  alice srun -p urgent -N2 -c16 --container-image="$image" sleep 600 > /dev/null 2>&1 3>&- &
  wait_until 40 job_is "$job" SUSPENDED
  root scancel "$job"
  gone() { [[ -z $(state_of "$job") ]]; }
  wait_until 40 gone
  cancel_everything
  expect_no_leftovers
  expect_nodes_up
  expect_equal "$(job_groups)" ""
}
