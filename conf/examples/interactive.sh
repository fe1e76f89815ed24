#!/bin/bash
# A shell in an image on a compute node.
#
#   ./interactive.sh                      a shell, one node, by Slurm's defaults
#   ./interactive.sh --gpus=1 --time=2:00:00
#   IMAGE=nvcr.io/nvidia/cuda:12.3.1-devel-ubuntu22.04 ./interactive.sh
#
# All arguments are passed to srun. What is written outside of mounts is kept in memory until the shell ends.
# See named-container.sbatch for how to keep it.
#
# For several steps in one allocation, use salloc and give the options to each srun in it:
#
#   salloc --nodes=2 --gpus-per-node=8
#   srun --container-image=nvcr.io/nvidia/pytorch:24.01-py3 nvidia-smi -L
#   srun --pty --nodes=1 --ntasks=1 --container-image=nvcr.io/nvidia/pytorch:24.01-py3 bash
set -euo pipefail

# The home directory and the current directory are mounted at their own paths, and the shell starts in the current one.
exec srun --pty "$@" --container-image="${IMAGE:-nvcr.io/nvidia/pytorch:24.01-py3}" --container-mount-home \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" bash -l
