#!/usr/bin/env bats
# A real Slurm whose berth comes out of the Debian packages, in a box of its own.
bats_require_minimum_version 1.5.0

setup_file() {
  export repo build tmp=$BATS_FILE_TMPDIR
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$(cd "$repo" && realpath -m "${BUILD:-build}")
  chmod 755 "$BATS_RUN_TMPDIR" "${tmp%/*}" "$tmp"
  # Beside the suite's box, should that be up.
  export BERTH_BOX_DIR=$tmp/box BERTH_BOX_PORT=$((${BERTH_BOX_PORT:-16817} + 60)) \
    BERTH_BOX_REGISTRY_PORT=$((${BERTH_BOX_REGISTRY_PORT:-5000} + 60))
  export BERTH_BOX_PACKAGES=$build/deb
  make -s -C "$repo" deb "${BUILD:-build}/tests/inside"
  mkdir -p "$tmp/tree/bin"
  cp "$build/tests/inside" "$tmp/tree/bin/inside"
  mksquashfs "$tmp/tree" "$tmp/image.sqsh" -quiet -no-progress > /dev/null
  "$repo/scripts/slurm-in-a-box" up --nodes 1 3>&-
  cp "$tmp/image.sqsh" "$BERTH_BOX_DIR/home/alice/image.sqsh"
}

teardown_file() {
  "$repo/scripts/slurm-in-a-box" down
}

@test "srun runs a task in a container with the packages' programs" {
  cmp <(dpkg-deb --fsys-tarfile "$build"/deb/berth_*.deb | tar -xO ./usr/bin/berth) \
    "$BERTH_BOX_DIR/install/usr/bin/berth"
  run -0 "$repo/scripts/slurm-in-a-box" run -u alice -- srun --container-image=/home/alice/image.sqsh /bin/inside
  run "$repo/scripts/slurm-in-a-box" run -u alice -- srun --container-image=/home/alice/image.sqsh /bin/inside fail
  [[ $status == 7 ]]
}

box() { "$repo/scripts/slurm-in-a-box" run "$@"; }
step() { box -u alice -- srun "$@" --container-image=/home/alice/image.sqsh /bin/inside; }

@test "the site's policy holds in steps, and each refusal is one line with file and key" {
  printf '%s\n' '[policy]' 'mount_sources = "/home/alice/data"' 'image_paths = "/home"' 'remap_root = "@nobody"' \
    'writable = ""' 'locked = "security"' |
    box -- tee -a /etc/berth/berth.conf > /dev/null
  box -u alice -- mkdir -p data
  run -0 step --container-mounts=/home/alice/data:/data
  run ! step --container-mounts=/etc:/data
  [[ $output == *"berth: n1: mounting /etc at /data (option --container-mounts): /etc/berth/berth.conf:4: \
policy.mount_sources allows mounts from /home/alice/data only"* ]]
  box -u alice -- ln -s /etc data/link
  run ! step --container-mounts=/home/alice/data/link:/data
  [[ $output == *"policy.mount_sources"* ]]
  run ! step --container-remap-root
  [[ $output == *"berth.conf:6: policy.remap_root"* ]]
  run ! step --container-writable
  [[ $output == *"berth.conf:7: policy.writable"* ]]
  run ! box -u alice -- env BERTH_SECURITY_SECCOMP=off srun --container-image=/home/alice/image.sqsh /bin/inside
  [[ $output == *"security.seccomp is locked by /etc/berth/berth.conf:8 (policy.locked)"* ]]
  box -- cp /home/alice/image.sqsh /tmp/elsewhere.sqsh
  run ! box -u alice -- srun --container-image=/tmp/elsewhere.sqsh /bin/inside
  [[ $output == *"policy.image_paths allows image files below /home only"* ]]
  # The same for berth run, and nothing of it drains a node.
  run ! box -u alice -- berth run --mount /etc:/data ./image.sqsh /bin/inside
  [[ $output == *"policy.mount_sources"* ]]
  run -0 step
  box -- sh -c "echo 'image_owners = \"alice\"' >> /etc/berth/berth.conf"
  run ! step
  [[ $output == *"berth.conf:9: policy.image_owners allows image files of alice only; this one belongs to root"* ]]
  box -- chown alice /home/alice/image.sqsh
  run -0 step
  "$repo/scripts/slurm-in-a-box" status
}
