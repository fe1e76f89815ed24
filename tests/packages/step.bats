#!/usr/bin/env bats
# A real Slurm whose berth comes out of the Debian packages, in a box of its own.
bats_require_minimum_version 1.5.0

setup_file() {
  export repo tmp=$BATS_FILE_TMPDIR
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  chmod 755 "$BATS_RUN_TMPDIR" "${tmp%/*}" "$tmp"
  # Beside the suite's box, should that be up.
  export BERTH_BOX_DIR=$tmp/box BERTH_BOX_PORT=$((${BERTH_BOX_PORT:-16817} + 60)) BERTH_BOX_REGISTRY_PORT=$((${BERTH_BOX_REGISTRY_PORT:-5000} + 60))
  export BERTH_BOX_PACKAGES=$repo/build/deb
  make -s -C "$repo" deb
  mkdir -p "$tmp/tree/bin"
  cp "$repo/build/tests/inside" "$tmp/tree/bin/inside"
  mksquashfs "$tmp/tree" "$tmp/image.sqsh" -quiet -no-progress > /dev/null
  "$repo/scripts/slurm-in-a-box" up --nodes 1 3>&-
  cp "$tmp/image.sqsh" "$BERTH_BOX_DIR/home/alice/image.sqsh"
}

teardown_file() {
  "$repo/scripts/slurm-in-a-box" down
}

@test "srun runs a task in a container with the packages' programs" {
  cmp <(dpkg-deb --fsys-tarfile "$repo"/build/deb/berth_*.deb | tar -xO ./usr/bin/berth) "$BERTH_BOX_DIR/install/usr/bin/berth"
  run -0 "$repo/scripts/slurm-in-a-box" run -u alice -- srun --container-image=/home/alice/image.sqsh /bin/inside
  run "$repo/scripts/slurm-in-a-box" run -u alice -- srun --container-image=/home/alice/image.sqsh /bin/inside fail
  [[ $status == 7 ]]
}
