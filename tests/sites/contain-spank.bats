#!/usr/bin/env bats
# bats file_tags=newer
# SlurmdParameters=contain_spank with job_container/tmpfs: Slurm calls the plugin in the job's mounts. Slurm has it
# since 24.05: BERTH_BOX_SLURM names one.
load site

setup_file() { site_up --with tmpfs --with contain-spank; }

@test "contain_spank: Slurm knows the parameter" {
  [[ $(slurm_says SlurmdParameters) == *contain_spank* ]] || fail "$(slurm_says SlurmdParameters)"
}

@test "contain_spank: containers start, and see the job's /tmp and /dev/shm" {
  for _ in 1 2; do
    run -0 in_home "salloc -Q -w n1 -n2 bash -c '
      srun -n1 sh -c \"echo of the job > /tmp/seen; echo shared > /dev/shm/segment\"
      srun -n2 --container-image=$image --container-mounts=/tmp:/job cat /job/seen /dev/shm/segment'"
    expect_equal "$(sort <<< "$output")" $'of the job\nof the job\nshared\nshared'
  done
  expect_no_leftovers
  expect_nodes_up
}

@test "contain_spank: a named container, a save and a helper that is killed" {
  run -0 in_home "rm -f saved.sqsh; salloc -Q -w n1 bash -c '
    srun --container-image=$image --container-name=kept sh -c \"echo written > /opt/file\"
    srun --container-name=kept --container-save=/home/alice/saved.sqsh cat /opt/file
    srun berth rm --force kept; srun --container-image=./saved.sqsh cat /opt/file'"
  expect_equal "$output" $'written\nberth: n1: saved the container as /home/alice/saved.sqsh\nwritten'
  in_home 'rm -f started'
  contained --container-mounts=/home/alice sh -c 'touch /home/alice/started; sleep 600' \
    > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  step=$!
  wait_until 20 alice test -e started
  mapfile -t helpers < <(berth_processes)
  kill_9 "${helpers[@]}"
  wait_until 20 step_over "$step"
  grep -q "file server on n1 died" "$BATS_TEST_TMPDIR/out" || fail "$(< "$BATS_TEST_TMPDIR/out")"
  cancel_everything
  expect_no_leftovers
  expect_nodes_up
}
