# Each job has a user namespace of its own. After namespaces.
# shellcheck shell=bash
echo '    - "CLONE_NEWUSER"' >> /etc/slurm/namespace.yaml
