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

# Slurm's own word for a setting.
slurm_says() { root scontrol show config | sed -nE "s/^$1 *= *//p"; }

step_over() { ! kill -0 "$1" 2> /dev/null; }
