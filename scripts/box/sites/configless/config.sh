# The box's stand-in of a GPU library reads a file beside slurm.conf that slurmctld hands to nobody.
# shellcheck shell=bash
sed -i 's/ Gres=[^ ]*//; /^GresTypes=/d' /etc/slurm/slurm.conf
# By default it lies beside slurm.conf, wherever that is.
sed -i '/^PlugStackConfig=/d' /etc/slurm/slurm.conf
rm -f /etc/slurm/gres.conf /etc/slurm/fake_gpus.conf
