#!/usr/bin/env bats
# GPUs that are divided for the jobs that ask for it: berth-mig in Prolog and Epilog, with a stand-in for NVML.
load site

setup_file() { site_up --cgroup --with mig; }

nothing_is_divided() { ! root grep -q ^instance "$state/nvml-instances"; }
every_device=ALL,NVIDIA_VISIBLE_DEVICES=all

teardown() {
  wait_until 30 no_jobs
  wait_until 30 nothing_is_divided
  expect_nodes_up
}

@test "mig: a job has the MIG devices that it asked for, all of them in each task, and they are gone after it" {
  run -0 --separate-stderr alice srun -w n1 --gres=gpu:divisible:1 --mig=1g.10gb:3 --container-image="$image" \
    --export="$every_device" sh -c 'echo "$CUDA_VISIBLE_DEVICES"; ls /dev/nvidia-caps | wc -l'
  expect_equal "$output" "$(printf 'MIG-cccccccc-0000-0000-0000-000000000002-%s-0\n' 7 8 9 | paste -sd,)"$'\n'6
  wait_until 30 nothing_is_divided
  run -0 root cat /var/log/berth-mig.log
  expect_output_like 'create 1g.10gb at 2:1'
}

@test "mig: with --mig-per-task each task sees one, in every step of a batch job" {
  in_home "cat > mig.sh" << END
#!/bin/sh
#SBATCH -w n1 -n3 --gres=gpu:divisible:1 --mig=1g.10gb:3 --mig-per-task
for i in 1 2; do
  srun --container-image=$image --export=$every_device sh -c 'echo \$SLURM_LOCALID \$CUDA_VISIBLE_DEVICES'
done
END
  in_home 'sbatch -Q -W -o mig.out mig.sh'
  each=$(for i in 0 1 2; do echo "$i MIG-cccccccc-0000-0000-0000-000000000002-$((i + 7))-0"; done)
  expect_equal "$(in_home 'sort mig.out')" "$(printf '%s\n%s\n' "$each" "$each" | sort)"
}

@test "mig: the example: a server for each MIG device, with ports of its own" {
  alice mkdir -p models
  cp "$repo/conf/examples/mig-divided.sbatch" "$state/home/alice"
  alice berth run --root --name standin "$image" bash -c \
    'printf "#!/bin/sh\necho \"\$@\"\n" > /usr/local/bin/tritonserver; chmod 755 /usr/local/bin/tritonserver'
  alice berth save --force -o standin.sqsh standin
  alice berth rm standin
  # The site of the test has another type of GPU, and driver's files for three MIG devices.
  in_home 'IMAGE=$PWD/standin.sqsh NVIDIA_VISIBLE_DEVICES=all sbatch -Q -W -w n1 -n3 --gres=gpu:divisible:1 \
    --mig=1g.10gb:3 -o mig.out mig-divided.sbatch models'
  expect_equal "$(in_home 'grep -o "serving on .*" mig.out | sort')" \
    "$(printf 'serving on MIG-cccccccc-0000-0000-0000-000000000002-%s-0\n' 7 8 9)"
  expect_equal "$(in_home 'grep -o "http-port=[0-9]*" mig.out | sort' | xargs)" \
    "http-port=8000 http-port=8010 http-port=8020"
}

@test "mig: a GPU by index: the second MIG device of the first GPU" {
  run -0 --separate-stderr alice srun -w n1 --gres=gpu:divisible:1 --mig=1g.10gb:3 --container-image="$image" \
    --export=ALL,NVIDIA_VISIBLE_DEVICES=0:1 sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
  expect_equal "$output" MIG-cccccccc-0000-0000-0000-000000000002-8-0
}

@test "mig: SLURM_JOB_GPUS counts the GPUs in the order of slurmd -G: by types, as slurm.conf has them" {
  expect_equal "$(root slurmd -N n1 -G 2>&1 | grep -o 'File=[^ ]*' | xargs)" \
    "File=/dev/nvidia[0-1] File=/dev/nvidia3 File=/dev/nvidia2"
}

@test "mig: what cannot be ends the steps with one line, and neither the node nor other jobs suffer" {
  run -125 alice srun -w n1 --gres=gpu:h100:1 --mig=1g.10gb:3 --container-image="$image" true
  expect_output_like '--mig=1g.10gb:3: GPU GPU-aaaaaaaa-.* is not in MIG mode, and no GPU is reset for a job'
  run -125 alice srun -w n1 --gres=gpu:divisible:1 --mig=4g.40gb:2 --container-image="$image" true
  expect_output_like '--mig=4g.40gb:2: an NVIDIA H100 80GB HBM3 can have 1 MIG devices 4g.40gb, not 2'
  run -125 alice srun -w n1 --mig=1g.10gb --container-image="$image" true
  expect_output_like 'the job holds no GPU'
  run ! alice srun -w n1 --gres=gpu:divisible:1 --mig=1g.10gb:9 --container-image="$image" true
  expect_output_like 'berth: --mig: 1g.10gb:9: the number after the colon has to be from 1 to 8'
  run -0 alice srun -w n1 --gres=gpu:divisible:1 --container-image="$image" true
}

@test "mig: a job that was not made with --mig cannot have it in a step" {
  run -125 alice salloc -Q -w n1 --gres=gpu:divisible:1 srun --mig=1g.10gb:3 --container-image="$image" true
  expect_output_like 'the GPUs of this job were not divided; give --mig to the sbatch, salloc or srun that makes'
}
