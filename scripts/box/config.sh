# The configuration files of the box, written into its private /etc; sourced by init.sh.
# shellcheck shell=bash disable=SC2154

write_users() {
  sed -i '/^\(alice\|bob\):/d' /etc/passwd /etc/shadow
  sed -i '/^\(alice\|bob\|team\):/d' /etc/group
  cat >> /etc/passwd <<END
alice:x:2001:2001:Alice:/home/alice:/bin/bash
bob:x:2002:2002:Bob:/home/bob:/bin/bash
END
  # Without these lines PAM lets nobody become them by `su -`, by which Slurm asks for a user's environment.
  printf '%s:*:19000:0:99999:7:::\n' alice bob >> /etc/shadow
  printf '%s\n' alice:x:2001: bob:x:2002: team:x:2100:alice >> /etc/group
  install -d -o 2001 -g 2001 -m 755 /home/alice
  install -d -o 2002 -g 2002 -m 755 /home/bob
}

write_hosts() {
  printf '127.0.0.1 localhost box %s\n' "$(node_names "$nodes" | xargs)" > /etc/hosts
  echo box > /etc/hostname
}

write_munge() {
  mkdir -p /etc/munge
  dd if=/dev/urandom of=/etc/munge/munge.key bs=128 count=1 status=none
  chmod 400 /etc/munge/munge.key
  chown -R munge:munge /etc/munge
}

# A node claims more CPUs than the machine has, so tasks are not bound to CPUs.
process_tracking() {
  if (( cgroup )); then
    printf '%s\n' ProctrackType=proctrack/cgroup TaskPlugin=task/cgroup,task/affinity TaskPluginParam=none
  else
    printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none
  fi
}

write_slurm_conf() {
  cat > /etc/slurm/slurm.conf <<END
ClusterName=box
SlurmctldHost=box(127.0.0.1)
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
SlurmctldPort=$port
StateSaveLocation=$state/slurmctld
SlurmdSpoolDir=$state/spool/%n
TmpFS=$state/tmp/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd.%n.log
$(process_tracking)
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
ScronParameters=enable
KillWait=5
# Slurm looks at once, and not after its usual seconds; for heterogeneous jobs only every so often (bf_interval).
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
Waittime=0
MessageTimeout=60
SlurmdParameters=config_overrides
PlugStackConfig=/etc/slurm/plugstack.conf
GresTypes=gpu
TaskProlog=/etc/slurm/task_prolog
TaskEpilog=/etc/slurm/task_epilog
NodeName=n[1-$nodes] NodeHostname=box NodeAddr=127.0.0.1 \\
  Port=[$((port + 1))-$((port + nodes))] CPUs=16 RealMemory=8000 Gres=gpu:h100:3,gpu:1g.10gb:3 State=UNKNOWN
PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE OverSubscribe=YES:16 State=UP
END
}

# What a site might do around each task; silent unless a test asks for it by a variable.
write_task_scripts() {
  cat > /etc/slurm/task_prolog <<'END'
#!/bin/sh
case "$BOX_PROLOG" in
  '') ;;
  fail) exit 7 ;;
  *) echo "export FROM_PROLOG=$(command -v scontrol):$SLURM_PROCID"; echo "unset $BOX_PROLOG"
    echo "print prolog of $(hostname)" ;;
esac
END
  cat > /etc/slurm/task_epilog <<'END'
#!/bin/sh
[ -z "$BOX_EPILOG" ] || echo "$SLURM_PROCID $(id -un) $(command -v scontrol)" >> "$BOX_EPILOG"
END
  chmod 755 /etc/slurm/task_prolog /etc/slurm/task_epilog
}

# Of the node's fake devices (devices.sh), as AutoDetect=nvml would find them: in the order of the device files, MIG
# devices with their UUIDs.
write_gres_conf() {
  echo AutoDetect=off > /etc/slurm/gres.conf
  local number instance nodes_of_it variables=nvidia_gpu_env,amd_gpu_env,intel_gpu_env,opencl_env
  {
    for number in 0 1; do echo "h100|16|0-15|(null)|/dev/nvidia$number|(null)|$variables"; done
    for number in 7 8 9; do
      instance=$(fake_cap "$number")
      nodes_of_it=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap$instance,/dev/nvidia-caps/nvidia-cap$((instance + 1))
      echo "1g.10gb|16|0-15|(null)|$nodes_of_it|$(fake_mig_uuid "$number")|$variables"
    done
    echo "h100|16|0-15|(null)|/dev/nvidia3|(null)|$variables"
  } > /etc/slurm/fake_gpus.conf
}

write_cgroup_conf() {
  if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    printf '%s\n' CgroupPlugin=cgroup/v2 IgnoreSystemd=yes
  else
    printf '%s\n' CgroupPlugin=cgroup/v1 CgroupAutomount=no
  fi > /etc/slurm/cgroup.conf
  printf '%s\n' ConstrainDevices=yes ConstrainRAMSpace=no ConstrainCores=no >> /etc/slurm/cgroup.conf
}

# replace_lines FILE FROM: the lines of FROM in FILE, in place of those with the same key. In FROM, @state@, @nodes@ and
# @dbd_port@ stand for the box's.
replace_lines() {
  local line key
  touch "$1"
  while IFS= read -r line; do
    key=${line%%=*}=
    [[ $key != PartitionName= ]] || key="${line%% *} "
    sed -i "/^$key/d" "$1"
    echo "$line" >> "$1"
  done < <(sed "/^\(#\|$\)/d; s|@state@|$state|g; s|@nodes@|n[1-$nodes]|g; s|@dbd_port@|$dbd_port|g" "$2")
}

# What sites configure (slurm-in-a-box up --with): files of lines for files of /etc/slurm, and a script for the rest.
write_sites() {
  local name file
  for name in "${sites[@]}"; do
    for file in "$here/sites/$name"/*.conf; do
      [[ ! -e $file ]] || replace_lines "/etc/slurm/${file##*/}" "$file"
    done
    # shellcheck source=/dev/null
    [[ ! -e $here/sites/$name/config.sh ]] || source "$here/sites/$name/config.sh"
  done
}

write_slurm() {
  rm -rf /etc/slurm
  mkdir -p /etc/slurm/plugstack.conf.d
  echo 'include /etc/slurm/plugstack.conf.d/*.conf' > /etc/slurm/plugstack.conf
  write_slurm_conf
  write_task_scripts
  write_gres_conf
  (( ! cgroup )) || write_cgroup_conf
  (( ! ${#sites[@]} )) || write_sites
  printf '%s\n' "${sites[@]}" > "$state/sites"
}

write_registry() {
  cat > /etc/registry.yml <<END
version: 0.1
log:
  accesslog:
    disabled: false
  level: warn
storage:
  filesystem:
    rootdirectory: $state/registry
  delete:
    enabled: true
http:
  addr: 127.0.0.1:$registry_port
END
}

# Each user has a store of their own below a folder like /tmp, as the plugin's documentation asks of a site.
write_berth() {
  mkdir -p /etc/berth
  cat > /etc/berth/berth.conf <<'END'
[store]
path = "/var/lib/berth/%U"
END
}

write_config() {
  write_users
  write_hosts
  write_munge
  write_slurm
  write_registry
}
