#!/usr/bin/env bats
# MPI: PMIx and PMI-2, with Open MPI and MPICH of Debian in the image, on two nodes.
load helper

mpi=$registry/debian:mpi

# Two tasks on each of two nodes.
four() { alice timeout $((60 * slowness)) srun -N2 --ntasks-per-node=2 "$@"; }

# The sums, and not a word beside them but about the pull.
expect_sums() {
  expect_equal "$output" "$1"
  expect_equal "$stderr" ""
}

@test "PMIx: the server's folder and that of the programs are there, and nowhere else" {
  run -0 four --mpi=pmix --container-image="$image" bash -c '
    grep -q " ${PMIX_SERVER_TMPDIR%/} " /proc/self/mountinfo && test -d "$PMIX_SERVER_TMPDIR"/pmix_dstor* ||
      test -d "$PMIX_SERVER_TMPDIR" && echo server
    ls -d '"$state"'/tmp/*/spmix_appdir_"$(id -u)_$SLURM_JOB_ID.$SLURM_STEP_ID"'
  expect_equal "$(grep -c '^server$' <<< "$output")" 4
  expect_equal "$(grep -c "^$state/tmp/n1/spmix_appdir" <<< "$output")" 2
  expect_equal "$(grep -c "^$state/tmp/n2/spmix_appdir" <<< "$output")" 2
  run -0 four --mpi=none --container-image="$image" sh -c 'grep -E "pmix" /proc/self/mountinfo; true'
  expect_equal "$output" ""
}

@test "PMIx: the variables of each rank, with the server's modules for the image's library" {
  run -0 four --mpi=pmix --container-image="$image" bash -c 'echo "$PMIX_RANK $SLURM_PROCID"
    [[ -n $PMIX_MCA_psec && $PMIX_MCA_psec == "$PMIX_SECURITY_MODE" ]] &&
      [[ -n $PMIX_MCA_gds && $PMIX_MCA_gds == "$PMIX_GDS_MODULE" ]]'
  expect_equal "$(sort -n <<< "$output")" $'0 0\n1 1\n2 2\n3 3'
}

@test "PMIx: Open MPI has the right sums on two nodes, shares memory within one, and leaves nothing" {
  run -0 --separate-stderr four --mpi=pmix --container-image="$mpi" sums-openmpi
  expect_sums "4 ranks on 2 nodes, 2 on the first, sum 6"
  expect_no_leftovers
  expect_equal "$(find "$state/tmp" "$state/spool" -name '*pmix*')" ""
}

@test "PMIx: a container of root's cannot talk to the server, which is said in one line" {
  # Without a program that tries: turned away, it leaves Slurm 22.05's slurmstepd waiting for a mutex for good (fini of
  # mpi_pmix.so, PMIx_server_finalize, pmix_rte_finalize), which scancel does not end.
  run -0 four --mpi=pmix --container-image="$image" --container-remap-root true
  expect_equal "$(grep -c 'berth: n1: .*--container-remap-root.*--mpi=pmi2' <<< "$output")" 1
  expect_equal "${#lines[@]}" 1
  run -0 alice srun -n1 --mpi=pmix --container-image="$image" --container-remap-root true
  expect_equal "$output" ""
}

@test "PMI-2: the descriptor is the server's socket, and the variables are there" {
  run -0 four --mpi=pmi2 --container-image="$image" bash -c \
    '[[ $(readlink "/proc/self/fd/$PMI_FD") == socket:* ]] && echo "$PMI_RANK of $PMI_SIZE"'
  expect_equal "$(sort -n <<< "$output")" $'0 of 4\n1 of 4\n2 of 4\n3 of 4'
}

@test "PMI-2: MPICH has the right sums on two nodes, also as root in the container" {
  run -0 --separate-stderr four --mpi=pmi2 --container-image="$mpi" sums-mpich
  expect_sums "4 ranks on 2 nodes, 2 on the first, sum 6"
  run -0 --separate-stderr four --mpi=pmi2 --container-image="$mpi" --container-remap-root sums-mpich
  expect_sums "4 ranks on 2 nodes, 2 on the first, sum 6"
}
