#!/usr/bin/env bats
# A federation of two clusters: a job goes to both with its options, and runs in one of them.
load site

setup_file() {
  "$box" up --with accounting --with federation >&3 2>&1 || return 1
  "$repo/scripts/make-test-image" --main >&3 2>&1 || return 1
  wait_until 60 both_answer || return 1
  alice srun -M box --container-image="$image" true
  alice srun -M other --container-image="$image" true
}

teardown() {
  root scontrol -M box update NodeName=n1 State=RESUME 2> /dev/null || true
  cancel_everything
}

both_answer() {
  [[ $(root sinfo --noheader -o %T | grep -c '^idle') == 2 &&
    $(root scontrol show federation) == *other*FedState:ACTIVE*Synced:Yes* ]]
}

# n1, which is the first to get a job that either cluster may have, takes none.
close_box() { root scontrol -M box update NodeName=n1 State=DRAIN Reason=test; }

@test "federation: a batch job that the other cluster runs is in the image of its options" {
  close_box
  job=$(in_home "rm -f out; sbatch --parsable -o out --container-image=$image --wrap \
    'only-in-image; echo \$SLURM_JOB_ID \$SLURM_CLUSTER_NAME' 2> /dev/null")
  # The job's number has the cluster's in its high bits.
  job=${job%%;*}
  (( job > 1 << 26 )) || fail "$job"
  wait_until 60 no_jobs
  expect_equal "$(in_home 'cat out')" "only in the image"$'\n'"$job other"
  expect_no_leftovers
}

@test "federation: so is what srun starts, in a container with a name, and nothing of it is left" {
  close_box
  run -0 --separate-stderr alice srun --container-image="$image" --container-name=own sh -c \
    'only-in-image; echo $SLURM_CLUSTER_NAME'
  expect_equal "$output" $'only in the image\nother'
  wait_until 30 no_jobs
  expect_no_leftovers
}
