# A node has the CPUs that the machine has, and no GPUs: those of the box claim to be near to CPUs that are not there.
# shellcheck shell=bash
sed -i "s/ CPUs=16 / CPUs=$(nproc) /; s/ Gres=[^ ]*//; /^GresTypes=/d; /^SlurmdParameters=/d" /etc/slurm/slurm.conf
rm -f /etc/slurm/gres.conf /etc/slurm/fake_gpus.conf
