#!/usr/bin/env bats
# PrologFlags=Contain: each job has an extern step, which has no container.
load site

setup_file() { site_up --cgroup --with contain; }

extern_steps() { root pgrep -cf 'slurmstepd: \[[0-9]+\.extern\]' || true; }

@test "contain: the job has an extern step and a container beside it, and nothing of both stays" {
  [[ $(slurm_says PrologFlags) == *Contain* ]] || fail "$(slurm_says PrologFlags)"
  in_home 'rm -f started'
  contained --container-mounts=/home/alice sh -c 'touch /home/alice/started; only-in-image; sleep 600' \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  wait_until 20 alice test -e started
  expect_equal "$(extern_steps)" 1
  expect_equal "$(berth_processes | wc -l)" 1
  cancel_everything
  wait_until 10 step_over $!
  expect_no_leftovers
  expect_nodes_up
  expect_equal "$(job_groups)" ""
}

@test "contain: sbatch, its steps on both nodes, and a named container that two of them share" {
  run -0 in_home "cat > job.sh <<'END'
#!/bin/bash
only-in-image
END
    $sbatch_wait -o out --container-image=$image job.sh 2> /dev/null; cat out
    salloc -Q -N2 bash -c 'srun --container-image=$image --container-name=kept sh -c \"hostname > /opt/of\"
      srun --container-name=kept cat /opt/of; srun berth rm --force kept'"
  expect_equal "$(sort <<< "$output")" $'n1\nn2\nonly in the image'
  expect_no_leftovers
  expect_nodes_up
}

@test "contain: a job without containers, whose extern step is asked for one, has none" {
  run -0 alice env BERTH_CONTAINER_IMAGE="$registry/debian:not-there" salloc -Q -w n1 true
  expect_equal "$output" ""
  expect_nodes_up
}
