# GPUs that jobs share by CUDA's multi-process service: a hundred shares of each device. Slurm takes a step's variables
# away again where shards are configured too.
# shellcheck shell=bash
sed -i 's/^GresTypes=.*/GresTypes=gpu,mps/; s/ Gres=[^ ]*/&,mps:600/' /etc/slurm/slurm.conf
echo 'Name=mps Count=600' >> /etc/slurm/gres.conf
