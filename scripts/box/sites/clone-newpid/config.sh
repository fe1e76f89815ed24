# Each job has a PID namespace of its own. After namespaces.
# shellcheck shell=bash
echo '    - "CLONE_NEWPID"' >> /etc/slurm/namespace.yaml
