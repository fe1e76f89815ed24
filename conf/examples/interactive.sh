#!/bin/bash
# A shell in an image on a compute node.
#
#   ./interactive.sh                      a shell, one node, by Slurm's defaults
#   ./interactive.sh --gpus=1 --time=2:00:00
#   IMAGE=nvcr.io/nvidia/cuda:12.3.1-devel-ubuntu22.04 ./interactive.sh
#
# All arguments are srun's. What is written outside of mounts is in memory and gone at the end; named-container.sbatch shows how to keep it.
#
# For several steps in one allocation take salloc, and give the options to each srun in it:
#
#   salloc --nodes=2 --gpus-per-node=8
#   srun --container-image=nvcr.io/nvidia/pytorch:24.01-py3 nvidia-smi -L
#   srun --pty --nodes=1 --ntasks=1 --container-image=nvcr.io/nvidia/pytorch:24.01-py3 bash
set -euo pipefail

# The home directory is mounted at its own path, so that the shell starts where the prompt was when that is below it.
exec srun --pty "$@" --container-image="${IMAGE:-nvcr.io/nvidia/pytorch:24.01-py3}" --container-mount-home \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" bash -l
