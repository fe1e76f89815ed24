# A driver and GPUs that are not there, for tests of devices: nodes of the numbers that gres.conf gives to Slurm, and what a driver shows; sourced by holder.sh.
# shellcheck shell=bash disable=SC2154

# /dev/fakegpu0 and 1 are whole GPUs; 2 and 3 are the nodes of two MIG devices of a third one.
fake_nodes() {
  local dev=$1 major=$2 number
  for number in 0 1 2 3; do mknod -m 666 "$dev/fakegpu$number" c "$major" "$number"; done
  for number in 0 1 9; do mknod -m 666 "$dev/nvidia$number" c "$major" "$number"; done
  mknod -m 666 "$dev/nvidiactl" c "$major" 255
  mknod -m 666 "$dev/nvidia-uvm" c "$major" 254
  mkdir "$dev/nvidia-caps"
  for number in 2 3; do mknod -m 444 "$dev/nvidia-caps/nvidia-cap$number" c "$major" "$number"; done
}

fake_gpu() { # MINOR BUS UUID
  mkdir -p "/proc/driver/nvidia/gpus/$2"
  printf 'Model: \t\t NVIDIA Fake\nGPU UUID: \t %s\nDevice Minor: \t %s\n' "$3" "$1" > "/proc/driver/nvidia/gpus/$2/information"
}

fake_proc() {
  local major=$1 number
  mount -t tmpfs -o mode=755 berth-box /proc/driver
  mkdir -p /proc/driver/nvidia/gpus /proc/driver/nvidia-caps
  echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan  1' > /proc/driver/nvidia/version
  echo 'ModifyDeviceFiles: 1' > /proc/driver/nvidia/params
  fake_gpu 0 0000:1b:00.0 GPU-aaaaaaaa-0000-0000-0000-000000000000
  fake_gpu 1 0000:2b:00.0 GPU-bbbbbbbb-0000-0000-0000-000000000001
  fake_gpu 9 0000:9b:00.0 GPU-cccccccc-0000-0000-0000-000000000009
  for number in 7 8; do
    mkdir -p "/proc/driver/nvidia/capabilities/gpu9/mig/gi$number/ci0"
    touch "/proc/driver/nvidia/capabilities/gpu9/mig/gi$number/access" "/proc/driver/nvidia/capabilities/gpu9/mig/gi$number/ci0/access"
    printf 'gpu9/gi%s/access %s\ngpu9/gi%s/ci0/access %s\n' "$number" $((number - 5)) "$number" $((number - 5))
  done > /proc/driver/nvidia-caps/mig-minors
  sed "1a $major nvidia\n$major nvidia-caps" /proc/devices > "$state/proc-devices"
  mount --bind "$state/proc-devices" /proc/devices
}

# NVML is a stand-in of the tests; the other library only has to be there.
fake_libraries() {
  local folder=/usr/lib/x86_64-linux-gnu
  [[ -e $state/lib/fake_nvml.so ]] || return 0
  cp "$state/lib/fake_nvml.so" "$folder/libnvidia-ml.so.570.86.15"
  ln -sf libnvidia-ml.so.570.86.15 "$folder/libnvidia-ml.so.1"
  echo 'no library' > "$folder/libcuda.so.570.86.15"
  ln -sf libcuda.so.570.86.15 "$folder/libcuda.so.1"
}
