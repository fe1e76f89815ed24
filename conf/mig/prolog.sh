#!/bin/bash
# Of Slurm's Prolog, on nodes whose GPUs are in MIG mode: see berth-mig(8). --devices has the order of `slurmd -G`.
/usr/sbin/berth-mig apply --job "$SLURM_JOB_ID" --devices '/dev/nvidia[0-7]'
