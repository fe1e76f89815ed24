#!/usr/bin/env bats
# Configless: the nodes have what slurmctld hands to them, beside the plugin's line that the package brought.
load site

setup_file() { site_up --with configless; }

@test "configless: the nodes have no slurm.conf of their own, and containers start" {
  run -0 alice srun -w n1 sh -c 'ls /etc/slurm; ls /run/slurm/conf/'
  [[ $output != *$'\nslurm.conf'*$'\nslurm.conf'* ]] || fail "$output"
  run -0 alice srun -N2 --container-image="$image" only-in-image
  expect_equal "$output" $'only in the image\nonly in the image'
  run -0 in_home "printf '#!/bin/sh\nonly-in-image\n' > job.sh; \
    $sbatch_wait -w n1 -o out --container-image=$image job.sh 2> /dev/null; cat out"
  expect_equal "$output" "only in the image"
  expect_no_leftovers
  expect_nodes_up
}

@test "configless: doctor on a node finds the plugin" {
  run -0 alice srun -w n1 berth doctor
  local release
  release=$(root sinfo --version)
  expect_output_like "Slurm ${release##* }, [^ ]*spank_berth.so loaded by "
}

@test "configless: slurm.client_in_container: srun in a container finds the configuration" {
  run -0 in_home "salloc -Q -N2 env BERTH_SLURM_CLIENT_IN_CONTAINER=1 srun -N1 -n1 --container-image=$image \
    srun --overlap -N2 -n2 --container-image=$image only-in-image"
  expect_equal "$output" $'only in the image\nonly in the image'
}
