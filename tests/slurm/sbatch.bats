#!/usr/bin/env bats
# bats file_tags=cgroup
# Batch scripts and allocations.
load helper

submit() {
  in_home "rm -f out; cat > job.sh; ${sbatch:-$sbatch_wait} -o out $1 job.sh || echo sbatch exited \$?; cat out"
}

@test "sbatch --container-image runs the batch script inside" {
  run -0 submit "--container-image=$image" <<'END'
#!/bin/bash
only-in-image
grep PRETTY /etc/os-release
pwd
END
  expect_output_like $'only in the image\nPRETTY_NAME="Debian GNU/Linux 12.*\n/srv'
}

@test "the options can stand in #SBATCH lines" {
  run -0 submit "" <<END
#!/bin/bash
#SBATCH --container-image=$image
#SBATCH --container-workdir=/opt
only-in-image
pwd
END
  expect_output_like $'only in the image\n/opt'
}

@test "an escaped # in a #SBATCH line separates the registry" {
  run -0 submit "" <<END
#!/bin/bash
#SBATCH --container-image=$registry\\#debian:12
only-in-image
END
  expect_output_like "only in the image"
}

@test "the batch script's exit code is the job's" {
  sbatch="sbatch --wait"
  run -0 submit "--container-image=$image" <<'END'
#!/bin/sh
exit 9
END
  expect_output_like "sbatch exited 9"
}

@test "a plain batch script starts steps in containers, also on another node" {
  run -0 submit "-N2" <<END
#!/bin/bash
srun --container-image=$image only-in-image
srun -N1 --container-image=$image --container-remap-root id -u
test ! -e /usr/local/bin/only-in-image
echo outside \$?
END
  expect_equal "$(grep -c 'only in the image' <<< "$output")" 2
  expect_output_like $'\n0\noutside 0'
}

@test "arguments of the batch script arrive" {
  run -0 in_home \
    "printf '#!/bin/sh\nprintf \"<%%s>\" \"\$@\"\n' > args.sh;
      $sbatch_wait -o out --container-image=$image args.sh 'a b' c; cat out"
  expect_output_like "<a b><c>"
}

@test "a missing image fails the batch job with one line in its output, and drains nothing" {
  run -0 submit "--container-image=$registry/debian:not-there" <<'END'
#!/bin/sh
echo never
END
  expect_output_like "not-there"
  [[ $output != *never* ]]
  expect_nodes_up
}

@test "salloc and srun" {
  run -0 alice salloc -N2 srun --container-image="$image" only-in-image
  expect_equal "$(grep -c 'only in the image' <<< "$output")" 2
}

@test "two steps at once in one allocation" {
  run -0 alice salloc -n2 bash -c \
    "srun --overlap -n1 --container-image=$image sh -c 'sleep 1; echo one' &
      srun --overlap -n1 --container-image=$image sh -c \
      'sleep 1; echo two' & wait"
  expect_output_like one
  expect_output_like two
}

@test "a job array runs each element inside" {
  run -0 in_home \
    "rm -f out-*; $sbatch_wait --array=1-3 -o out-%a --container-image=$image \
      --wrap 'only-in-image; echo \$SLURM_ARRAY_TASK_ID'; cat out-1 out-2 out-3"
  expect_equal "$(grep -c 'only in the image' <<< "$output")" 3
}
