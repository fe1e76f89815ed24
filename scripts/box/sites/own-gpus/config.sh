# The GPUs and the driver that this machine has, in place of the box's fake ones (init.sh leaves these out): all of them
# are n1's.
# shellcheck shell=bash disable=SC2154
own_gpus=(/dev/nvidia[0-9]*)
[[ -e ${own_gpus[0]} ]] || die "there is no /dev/nvidia0 here: --with own-gpus is for a machine with an NVIDIA GPU"
(( nodes == 1 )) || die "the GPUs of this machine are one node's: slurm-in-a-box up --nodes 1 --with own-gpus"
sed -i "s/ Gres=[^ ]*//; s/ RealMemory=8000/& Gres=gpu:${#own_gpus[@]}/" /etc/slurm/slurm.conf
printf '%s\n' AutoDetect=off "NodeName=n1 Name=gpu File=/dev/nvidia[$(IFS=,; echo "${own_gpus[*]#/dev/nvidia}")]" \
  > /etc/slurm/gres.conf
rm -f /etc/slurm/fake_gpus.conf
