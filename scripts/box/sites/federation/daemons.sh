#!/bin/bash
# The federation, and the slurmctld of its second cluster.
set -euo pipefail
here=$(dirname "$0")/../..
# shellcheck source=scripts/box/common.sh
source "$here/common.sh"
sacctmgr --immediate --quiet add cluster other
sacctmgr --immediate --quiet add federation both clusters=box,other
sacctmgr --immediate --quiet add account team cluster=other
sacctmgr --immediate --quiet add user alice account=team cluster=other
install -d -o slurm -g slurm "$state/slurmctld-other"
install -o slurm -g slurm -m 644 /dev/null "$state/log/slurmctld-other.log"
# The plugin's line has come since.
cp -a /etc/slurm/plugstack.conf.d "$state/other/"
# shellcheck disable=SC2016
unshare --mount --propagation private bash -euc 'mount --bind "$1/other" /etc/slurm; slurmctld' bash "$state"
