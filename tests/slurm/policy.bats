#!/usr/bin/env bats
# [policy] of the site file in steps: what a job names in any way, and what Slurm and the site bring.
load helper

setup() {
  in_home 'rm -rf data secret; mkdir data data/mps secret; echo content > data/x; echo secret > secret/x'
}

teardown() {
  restore_site
}

with_policy() { with_site_lines '[policy]' 'mount_sources = "/home/alice/data"' "$@"; }

# refused ORIGIN: the step failed with the one line of a mount whose source came from there.
refused() {
  expect_failure
  expect_one_error_line
  expect_output_like "berth: n1: mounting .* at .* \($1\): .*/etc/berth/berth.conf:[0-9]+: policy.mount_sources allows \
mounts from /home/alice/data only"
}

@test "policy: mounts, the home, and symlinks of the user" {
  with_policy
  run -0 contained --container-mounts=/home/alice/data:/data cat /data/x
  expect_equal "$output" content
  run contained --container-mounts=/home/alice/secret:/data true
  refused 'option --container-mounts'
  in_home 'ln -s ../secret data/link'
  run contained --container-mounts=/home/alice/data/link:/data true
  refused 'option --container-mounts'
  expect_output_like "it leads to /home/alice/secret, and "
  run contained --container-mount-home true
  refused 'option --container-mount-home'
  run in_home "BERTH_DEFAULTS_MOUNT_HOME=1 srun -w n1 --container-image=$image true"
  refused 'variable BERTH_DEFAULTS_MOUNT_HOME'
  expect_nodes_up
}

@test "policy: a home that the site mounts is mounted" {
  with_policy '[defaults]' 'mount_home = true'
  run -0 contained cat /home/alice/secret/x
  expect_equal "$output" secret
}

@test "policy: the pipe of MPS and files for Slurm's commands that the job names" {
  with_policy
  gpu="NVIDIA_VISIBLE_DEVICES=all srun -w n1 --gres=gpu:h100:1 --container-image=$image"
  run -0 in_home "$gpu true"
  run -0 in_home "CUDA_MPS_PIPE_DIRECTORY=/home/alice/data/mps $gpu test -d /home/alice/data/mps"
  run in_home "CUDA_MPS_PIPE_DIRECTORY=/home/alice/secret $gpu true"
  refused 'variable CUDA_MPS_PIPE_DIRECTORY'
  client="export BERTH_SLURM_CLIENT_IN_CONTAINER=1; srun -w n1 --container-image=$image"
  run -0 in_home "$client squeue --version"
  run in_home "export BERTH_SLURM_CLIENT_FILES=/home/alice/secret; $client true"
  refused 'variable BERTH_SLURM_CLIENT_FILES'
  run -0 in_home "export BERTH_SLURM_CLIENT_FILES=/home/alice/data; $client cat /home/alice/data/x"
  expect_equal "$output" content
}

@test "policy: PMIx finds Slurm's own folders, and none that a variable names" {
  with_policy
  run -0 alice srun -w n1 -n2 --mpi=pmix --container-image="$image" bash -c \
    'test -d "$PMIX_SERVER_TMPDIR" && echo there'
  expect_equal "$output" $'there\nthere'
  run in_home "export SLURM_PMIX_TMPDIR=/home/alice/secret; srun -w n1 --mpi=pmix --container-image=$image true"
  refused 'variable SLURM_PMIX_TMPDIR'
}

@test "policy: keys that say where programs and files come from are locked until the site opens them" {
  for variable in BERTH_HOOKS_FOLDER=/tmp BERTH_HOOKS_TIMEOUT=3 BERTH_DEVICES_DRIVER_ROOT=/tmp \
    BERTH_DEVICES_DEVICE_ROOT=/tmp BERTH_DEVICES_CDI_FOLDERS=/tmp; do
    run in_home "export $variable; srun -w n1 --container-image=$image true"
    expect_failure
    expect_one_error_line
    expect_output_like "is locked unless the site's file lists it in policy.unlocked; unset the variable"
  done
  with_site_lines '[policy]' 'unlocked = "hooks.timeout"'
  run -0 in_home "export BERTH_HOOKS_TIMEOUT=3; srun -w n1 --container-image=$image true"
  run in_home "export BERTH_HOOKS_FOLDER=/tmp; srun -w n1 --container-image=$image true"
  expect_output_like "BERTH_HOOKS_FOLDER: hooks.folder is locked unless"
}

@test "policy: a user's CDI folder that the site has opened mounts what the user may mount" {
  in_home 'mkdir -p cdi; for name in data secret; do
    printf "%s\n" cdiVersion:\ 0.5.0 "kind: $name.test/x" devices: "- name: a" "  containerEdits:" "    mounts:" \
      "    - {hostPath: /home/alice/$name, containerPath: /given}" > cdi/$name.yaml
    done'
  with_policy 'unlocked = "devices.cdi_folders"'
  step="export BERTH_DEVICES_CDI_FOLDERS=/home/alice/cdi; srun -w n1 --container-image=$image cat /given/x"
  run -0 in_home "export BERTH_DEVICES=data.test/x=a; $step"
  expect_equal "$output" content
  run in_home "export BERTH_DEVICES=secret.test/x=a; $step"
  refused 'CDI, by BERTH_DEVICES_CDI_FOLDERS'
}

@test "slurm.client_files: what the site lists is in containers with Slurm's commands, read-only, and in no others" {
  root bash -c 'mkdir -p /etc/berth-extra; echo more > /etc/berth-extra/file'
  with_site_lines '[slurm]' 'client_files = "/etc/berth-extra /no/such/file"'
  run -0 in_home "export BERTH_SLURM_CLIENT_IN_CONTAINER=1; srun -w n1 --container-image=$image sh -c \
    'cat /etc/berth-extra/file; grep \" /etc/berth-extra ro,\" /proc/self/mountinfo > /dev/null && echo read-only'"
  expect_equal "$output" $'more\nread-only'
  run contained cat /etc/berth-extra/file
  expect_failure
  root rm -rf /etc/berth-extra
}
