# n2 is the node of a second cluster, named other, whose /etc/slurm is kept in $state/other. Sourced by config.sh.
# shellcheck shell=bash disable=SC2154
cp -a /etc/slurm "$state/other"
sed -i "s/^ClusterName=.*/ClusterName=other/; s/^SlurmctldPort=.*/SlurmctldPort=$((port + 80))/
  s|^StateSaveLocation=.*|StateSaveLocation=$state/slurmctld-other|
  s|^SlurmctldPidFile=.*|SlurmctldPidFile=/run/slurmctld-other.pid|
  s|^SlurmctldLogFile=.*|SlurmctldLogFile=$state/log/slurmctld-other.log|
  s/^NodeName=n\[1-2\]/NodeName=n2/; s/Port=\[\([0-9]*\)-\([0-9]*\)\]/Port=\2/
  s/ Nodes=n\[1-2\]/ Nodes=n2/" "$state/other/slurm.conf"
sed -i "s/^NodeName=n\[1-2\]/NodeName=n1/; s/Port=\[\([0-9]*\)-\([0-9]*\)\]/Port=\1/
  s/ Nodes=n\[1-2\]/ Nodes=n1/" /etc/slurm/slurm.conf
