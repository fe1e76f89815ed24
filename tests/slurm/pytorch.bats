#!/usr/bin/env bats
# The variables of images that are known as PyTorch's by PYTORCH_VERSION.
load helper

@test "an image with PYTORCH_VERSION has the ranks and the meeting point of each task, whatever it says of Slurm's own variables" {
  run -0 --separate-stderr alice srun -N2 --ntasks-per-node=2 --mpi=none --container-image="$registry/debian:pytorch" \
    sh -c \
    '[ "$RANK" = "$SLURM_PROCID" ] && [ "$LOCAL_RANK" = "$SLURM_LOCALID" ] &&
        echo "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $OMP_NUM_THREADS" \
          "$((MASTER_PORT - 61000 - SLURM_JOB_ID % 4536))"'
  expect_equal "$(sort <<< "$output")" $'0/4 0 n1 1 0\n1/4 1 n1 1 0\n2/4 0 n1 1 0\n3/4 1 n1 1 0'
}

@test "what the job sets stays, and other images have none of it" {
  run -0 --separate-stderr in_home "MASTER_ADDR=here MASTER_PORT=1 srun --container-image=$registry/debian:pytorch env"
  expect_output_like "MASTER_ADDR=here"
  expect_output_like "MASTER_PORT=1"
  run -0 contained sh -c 'echo "$RANK$LOCAL_RANK$MASTER_ADDR$MASTER_PORT$WORLD_SIZE"'
  expect_equal "$output" ""
}
