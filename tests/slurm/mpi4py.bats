#!/usr/bin/env bats
# What the mpi4py test of Pyxis does, by a program that makes the same calls: PMIx with the programs' folder in several
# places.
load helper

@test "all collective calls work wherever PMIx keeps the programs' files" {
  for folder in '' /dev/shm /var/tmp; do
    # Both nodes of this machine would make the same folder.
    for node in n1 n2; do
      run -0 --separate-stderr alice timeout $((60 * slowness)) env ${folder:+SLURM_PMIX_TMPDIR=$folder} srun \
        -w "$node" -n4 --mpi=pmix \
        --container-image="$registry/debian:mpi" sums-openmpi
      expect_equal "$output" "4 ranks on 1 nodes, 4 on the first, sum 6"
      expect_equal "$stderr" ""
      [[ -n $folder ]] || break
    done
  done
}
