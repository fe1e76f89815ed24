#!/usr/bin/env bats
# Preemption by requeue: a batch job in a container makes room and starts again in a new one.
load site

setup_file() { site_up --cgroup --with preempt; }

@test "preempt: a job that is requeued for another one leaves nothing, and runs again in a container of its own" {
  cancel_everything
  in_home 'rm -f runs out; cat > job.sh' <<'END'
#!/bin/bash
[[ ! -e /tmp/left ]] || echo stale
touch /tmp/left
only-in-image >> /home/alice/runs
(( $(wc -l < /home/alice/runs) == 2 )) || sleep 600
END
  job=$(in_home "sbatch --parsable --requeue -N2 --exclusive -o out --container-image=$image \
    --container-mounts=/home/alice job.sh")
  wait_until 20 alice test -s runs
  run -0 alice srun -p urgent -N2 --exclusive --container-image="$image" sh -c 'only-in-image; ls /tmp | wc -l'
  expect_equal "$(sort <<< "$output")" $'0\n0\nonly in the image\nonly in the image'
  ended_after_another_start() {
    root scontrol update "jobid=$job" StartTime=now &> /dev/null || true
    [[ $(alice grep -c . runs) == 2 ]] && no_jobs
  }
  wait_until 90 ended_after_another_start
  expect_equal "$(in_home 'cat out')" ""
  expect_no_leftovers
  expect_nodes_up
  expect_equal "$(job_groups)" ""
}
