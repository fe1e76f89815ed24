# For tests of nodes that share what they pull; loaded after the helper by `load sharing`.
# shellcheck shell=bash disable=SC2154

# Sharing is on, and no node has an image; to be undone by restore_site.
share_on() {
  with_site_lines '[share]' 'enabled = true' "$@"
  forget_images
  mark_log
}

# A step of so many nodes whose tasks wait for each other: a node that has ended gives nothing to the others.
together() {
  in_home 'rm -f at.*'
  # shellcheck disable=SC2016
  alice srun -N"$1" --container-image="$image" --container-mount-home sh -c \
    'cd && : > at.$SLURM_NODEID
    until set -- at.* && [ $# = "$SLURM_NNODES" ]; do sleep 0.1; done
    cat /srv/hello'
}

# Processes of pulls on all nodes, and those beside srun, by which the nodes meet.
pulls() {
  local pid
  for pid in $(berth_processes); do
    [[ $(readlink "$(box_proc)/$pid/exe") != *berth-pull* ]] || echo "$pid"
  done | grep .
}
no_pulls() { ! pulls; }

# How often the registry was asked for the blob that it was asked for most.
most_requests() {
  log_since GET /v2/debian/blobs/ | grep -o 'blobs/sha256:[0-9a-f]*' | sort | uniq -c | sort -rn |
    awk 'NR == 1 { print $1 }'
}
