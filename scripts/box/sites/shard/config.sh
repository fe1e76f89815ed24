# GPUs that jobs share: four shards of each device.
# shellcheck shell=bash
sed -i 's/^GresTypes=.*/GresTypes=gpu,shard/; s/ Gres=[^ ]*/&,shard:24/' /etc/slurm/slurm.conf
echo 'Name=shard Count=24' >> /etc/slurm/gres.conf
