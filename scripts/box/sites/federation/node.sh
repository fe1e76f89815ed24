# Sourced in the node's mount namespace with the node's name, its folder, and the box's as $4.
# shellcheck shell=bash
[[ $1 != n2 ]] || mount --bind "$4/other" /etc/slurm
