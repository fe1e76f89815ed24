# A driver and GPUs that are not there, for tests of devices: nodes of the numbers that gres.conf gives to Slurm, and
# what a driver shows; sourced by init.sh.
# shellcheck shell=bash disable=SC2154

# The GPUs 0, 1 and 3 are whole, 2 has three MIG devices, of the GPU instances 7 to 9.
fake_nodes() {
  local dev=$1 major=$2 number cap
  # What is there is of GPUs of this machine.
  rm -rf "$dev"/nvidia*
  for number in 0 1 2 3; do mknod -m 666 "$dev/nvidia$number" c "$major" "$number"; done
  mknod -m 666 "$dev/nvidiactl" c "$major" 255
  mknod -m 666 "$dev/nvidia-uvm" c "$major" 254
  mkdir "$dev/nvidia-caps"
  for number in 7 8 9; do
    cap=$(fake_cap "$number")
    mknod -m 444 "$dev/nvidia-caps/nvidia-cap$cap" c "$major" "$cap"
    mknod -m 444 "$dev/nvidia-caps/nvidia-cap$((cap + 1))" c "$major" "$((cap + 1))"
  done
}

# The minor number that a driver gives to an instance of GPU 2; that of its compute instance is the next.
fake_cap() { echo $((3 + 135 * 2 + 9 * $1)); }

fake_mig_uuid() { printf 'MIG-dddddddd-0000-0000-0000-%012d\n' "$1"; }

fake_gpu() { # MINOR BUS UUID
  mkdir -p "/proc/driver/nvidia/gpus/$2"
  printf 'Model: \t\t NVIDIA Fake\nGPU UUID: \t %s\nDevice Minor: \t %s\n' "$3" "$1" \
    > "/proc/driver/nvidia/gpus/$2/information"
}

fake_proc() {
  local major=$1 number folder
  mount -t tmpfs -o mode=755 berth-box /proc/driver
  mkdir -p /proc/driver/nvidia/gpus
  echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan  1' > /proc/driver/nvidia/version
  echo 'ModifyDeviceFiles: 1' > /proc/driver/nvidia/params
  fake_gpu 0 0000:1b:00.0 GPU-aaaaaaaa-0000-0000-0000-000000000000
  fake_gpu 1 0000:2b:00.0 GPU-bbbbbbbb-0000-0000-0000-000000000001
  fake_gpu 2 0000:3b:00.0 GPU-cccccccc-0000-0000-0000-000000000002
  fake_gpu 3 0000:4b:00.0 GPU-eeeeeeee-0000-0000-0000-000000000003
  for number in 7 8 9; do
    folder=/proc/driver/nvidia/capabilities/gpu2/mig/gi$number
    mkdir -p "$folder/ci0"
    echo "DeviceFileMinor: $(fake_cap "$number")" > "$folder/access"
    echo "DeviceFileMinor: $(($(fake_cap "$number") + 1))" > "$folder/ci0/access"
  done
  sed "/ nvidia/d; 1a $major nvidia\n$major nvidia-caps" /proc/devices > "$state/proc-devices"
  mount --bind "$state/proc-devices" /proc/devices
}

# NVML is a stand-in of the tests; the other library only has to be there.
fake_libraries() {
  local folder
  folder=/usr/lib/$(uname -m)-linux-gnu
  [[ -e $state/lib/fake_nvml.so ]] || return 0
  cp "$state/lib/fake_nvml.so" "$folder/libnvidia-ml.so.570.86.15"
  ln -sf libnvidia-ml.so.570.86.15 "$folder/libnvidia-ml.so.1"
  echo 'no library' > "$folder/libcuda.so.570.86.15"
  ln -sf libcuda.so.570.86.15 "$folder/libcuda.so.1"
}
