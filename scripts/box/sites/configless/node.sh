# Of /etc/slurm a node has what packages and the site's own tools put there: the plugin's line and the task scripts.
# What slurmd is handed is in its spool folder, and a link in /run leads there. Sourced in the node's mount namespace
# with the node's name, its folder, and the box's as $4.
# shellcheck shell=bash disable=SC2034,SC2154
server=$(sed -nE 's/^SlurmctldPort=//p' /etc/slurm/slurm.conf)
options=(--conf-server "box:$server")
mkdir -p "$2/slurm" "$2/run-slurm" /run/slurm
cp -a /etc/slurm/plugstack.conf.d /etc/slurm/task_prolog /etc/slurm/task_epilog "$2/slurm/"
mount --bind "$2/slurm" /etc/slurm
mount --bind "$2/run-slurm" /run/slurm
