# What every file of this folder begins with: a box with what a site configures. Loaded by `load site`.
# shellcheck shell=bash disable=SC2154
load ../slurm/helper

# For setup_file: a box by the arguments of `slurm-in-a-box up`, its registry with the main image, and that image in the
# stores of both nodes.
site_up() {
  "$box" up "$@" >&3 2>&1 || return 1
  "$repo/scripts/make-test-image" --main >&3 2>&1 || return 1
  alice srun -N2 --container-image="$image" true
}

# The node's first GPU is another user's, so that the numbers of a step are not those of the node.
occupy_first_gpu() {
  bob srun -w n1 --gres=gpu:h100:1 sleep 3600 > /dev/null 2>&1 3>&- &
  wait_until 20 bash -c "'$box' run -- squeue -h -u bob -t R | grep -q ."
}

with_gpus() { in_home "export NVIDIA_VISIBLE_DEVICES=all; $*"; }

# Slurm's own word for a setting.
slurm_says() { root scontrol show config | sed -nE "s/^$1 *= *//p"; }

step_over() { ! kill -0 "$1" 2> /dev/null; }
