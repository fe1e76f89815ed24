# Each node has a base folder of its own, as it has a disk of its own. Sourced in the node's mount namespace with the
# node's name, its folder, and the box's as $4.
# shellcheck shell=bash
mkdir -p "$2/containers" "$4/containers"
mount --bind "$2/containers" "$4/containers"
