#!/bin/bash
# Of Slurm's Epilog, on the same nodes as prolog.sh.
/usr/sbin/berth-mig restore --job "$SLURM_JOB_ID"
