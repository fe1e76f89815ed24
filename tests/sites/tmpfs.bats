#!/usr/bin/env bats
# job_container/tmpfs: each job has its own /tmp and /dev/shm. What a container takes of the node, it takes of the job.
load site

setup_file() { site_up --cgroup --with tmpfs; }

@test "tmpfs: the job's /tmp is mounted where the container asks for the node's, and not another one" {
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun sh -c \"echo of the job > /tmp/seen\"
    srun --container-image=$image --container-mounts=/tmp:/job cat /job/seen
    srun --container-image=$image --container-mounts=/tmp sh -c \"echo from inside > /tmp/back\"
    srun cat /tmp/back'"
  expect_equal "$output" $'of the job\nfrom inside'
  # It has gone with the job, and was never on the node.
  run ! root bash -c 'ls /tmp/seen /tmp/back'
  run ! alice srun -w n1 --container-image="$image" --container-mounts=/tmp:/job cat /job/seen
}

@test "tmpfs: /dev/shm in the container is the job's" {
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun sh -c \"echo shared > /dev/shm/segment\"
    srun --container-image=$image sh -c \"cat /dev/shm/segment; echo more > /dev/shm/second\"
    srun cat /dev/shm/second'"
  expect_equal "$output" $'shared\nmore'
  run ! root ls /dev/shm/segment /dev/shm/second
}

@test "tmpfs: an image file in the job's /tmp starts" {
  in_home "berth import -o image.sqsh $image"
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun cp image.sqsh /tmp/image.sqsh; srun --container-image=/tmp/image.sqsh only-in-image'"
  expect_equal "$output" "only in the image"
}

@test "tmpfs: batch scripts, named containers and steps that join others work, and nothing stays" {
  run -0 in_home "cat > job.sh <<'END'
#!/bin/bash
only-in-image
echo batch > /tmp/file && cat /tmp/file
END
    $sbatch_wait -w n1 -o out --container-image=$image job.sh 2> /dev/null; cat out"
  expect_equal "$output" $'only in the image\nbatch'
  run -0 in_home "salloc -Q -w n1 bash -c '
    srun --container-image=$image --container-name=kept sh -c \"echo written > /opt/file\"
    srun --container-name=kept cat /opt/file
    srun berth exec kept cat /opt/file; srun berth rm --force kept'"
  expect_equal "$output" $'written\nwritten'
  expect_no_leftovers
  expect_nodes_up
}

@test "tmpfs: doctor names the setting" {
  run -0 alice srun -w n1 berth doctor
  expect_output_like "JobContainerType=job_container/tmpfs: --container-mounts takes the job's own /tmp"
}

@test "tmpfs: a job that begins before the user's folder in /run is there, and one after it" {
  # The mounts of this job were made before any step with a container; the user's folder goes with the last job.
  for _ in 1 2; do
    run -0 in_home "salloc -Q -w n1 bash -c 'srun true; srun --container-image=$image only-in-image
      srun --container-image=$image only-in-image'"
    expect_equal "$output" $'only in the image\nonly in the image'
  done
  expect_no_leftovers
  run -0 root bash -c "ls -A $state/nodes/*/containers"
  [[ $output != */[0-9]* ]] || fail "$output"
}
