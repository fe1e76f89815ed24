# Four whole GPUs, of which /dev/nvidia2 is in MIG mode and has no MIG devices. The stand-in for NVML knows it from a
# file, and keeps its instances in another one. Sourced by init.sh.
# shellcheck shell=bash disable=SC2154
printf '%s\n' AutoDetect=off 'Name=gpu Type=h100 File=/dev/nvidia[0-1]' 'Name=gpu Type=divisible File=/dev/nvidia2' \
  'Name=gpu Type=h100 File=/dev/nvidia3' > /etc/slurm/gres.conf
rm -f /etc/slurm/fake_gpus.conf
sed -i 's/Gres=gpu:h100:3,gpu:1g.10gb:3/Gres=gpu:h100:3,gpu:divisible:1/' /etc/slurm/slurm.conf

cat > /etc/fake_nvml.scene <<END
gpu 00000000:1B:00.0 0 GPU-aaaaaaaa-0000-0000-0000-000000000000 9.0 14 whole
gpu 00000000:2B:00.0 1 GPU-bbbbbbbb-0000-0000-0000-000000000001 9.0 14 whole
gpu 00000000:3B:00.0 2 GPU-cccccccc-0000-0000-0000-000000000002 9.0 14 mig
$(cat "$here/H100-80GB.scene")
gpu 00000000:4B:00.0 3 GPU-eeeeeeee-0000-0000-0000-000000000003 9.0 14 whole
state $state/nvml-instances
END

cat > /etc/slurm/prolog <<END
#!/bin/sh
exec /usr/sbin/berth-mig apply --job "\$SLURM_JOB_ID" --devices '/dev/nvidia[0-1,3],/dev/nvidia2' \
  --scontrol "$(command -v scontrol)"
END
cat > /etc/slurm/epilog <<'END'
#!/bin/sh
exec /usr/sbin/berth-mig restore --job "$SLURM_JOB_ID"
END
chmod 755 /etc/slurm/prolog /etc/slurm/epilog
