# Mounts of each job; clone-newpid and clone-newuser, which come after it, add to the list at the end. A kernel without
# tokens of BPF gives a job in a user namespace no filter of devices for its steps.
# shellcheck shell=bash disable=SC2154
cat > /etc/slurm/namespace.yaml <<YAML
defaults:
  auto_base_path: true
  disable_bpf_token: true
  base_path: "$state/containers"
  clone_ns_flags:
    - "CLONE_NEWNS"
YAML
