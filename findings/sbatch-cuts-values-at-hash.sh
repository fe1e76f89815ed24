#!/bin/bash
# Slurm 22.05.8 (sbatch): an unquoted value in an #SBATCH line ends at its first '#', without a word and with what is
# left as the value. NVIDIA's own way to write an image, nvcr.io#nvidia/pytorch:24.01-py3, becomes nvcr.io: the same
# option on the command line is taken whole. With quotes the value is whole in the script, too.
#
# Needs Debian 12 and its package sources. No controller: sbatch -v prints what it understood before it looks for one.
set -euo pipefail
version=22.05.8-4+deb12u3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download "slurm-client=$version" "slurm-wlm-basic-plugins=$version" \
  libmunge2=0.5.15-2+deb12u1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
lib=$work/root/usr/lib/x86_64-linux-gnu
cat > slurm.conf <<END
ClusterName=c
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
PluginDir=$lib/slurm-wlm
NodeName=n1 NodeAddr=127.0.0.1
PartitionName=p Nodes=n1 Default=YES
END
image=nvcr.io#nvidia/pytorch:24.01-py3
printf '#!/bin/bash\n#SBATCH --comment=%s\n#SBATCH --wckey="%s"\ntrue\n' "$image" "$image" > job.sh

# understood WORDS OF SBATCH...: the values that it prints.
understood() {
  { SLURM_CONF=$work/slurm.conf LD_LIBRARY_PATH=$lib:$lib/slurm-wlm root/usr/bin/sbatch -v "$@" 2>&1 || true; } |
    sed -nE 's/^sbatch: (comment|wckey) *: (.*)/\1=\2/p'
}

script=$(understood job.sh)
line=$(understood "--comment=$image" job.sh)
printf 'in the script:\n%s\non the command line:\n%s\n' "$script" "$line"
[[ $script == $'comment=nvcr.io\nwckey='"$image" ]]
[[ $line == "comment=$image"$'\nwckey='"$image" ]]
echo "sbatch $version: as described"
