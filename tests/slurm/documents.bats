#!/usr/bin/env bats
# Each command of the pages that a new user or administrator begins with, typed as it stands there, in the page's order,
# to shells on a terminal. tests/documents/README.md tells how.
load helper

folder=/etc/slurm/plugstack.conf.d
documents=$repo/tests/documents
asking=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 997))
images=(library/debian:12 library/ubuntu:24.04 nvidia/pytorch:24.01-py3 nvidia/pytorch:24.05-py3
  jupyter/scipy-notebook:python-3.12 tensorflow/tensorflow:2.17.0 rayproject/ray:2.40.0 dask/dask:2024.9.1
  continuumio/miniconda3:24.7.1-0 box/small:1=tar)
registries=(docker.io nvcr.io quay.io ghcr.io)

setup_file() {
  python3 -B "$documents/image.py" "$registry" "${images[@]}"
  start_podman
  stand_in nvidia-smi systemctl
  python3 -B "$repo/tests/registry/challenging.py" "${asking##*:}" 3>&- > "$BATS_FILE_TMPDIR/asking.log" 2>&1 &
  echo $! > "$BATS_FILE_TMPDIR/asking.pid"
  wait_until 60 curl -s -o /dev/null "http://$asking/v2/"
}

# Programs of the box that are scripts of tests/documents/box: stand_in NAME...
stand_in() {
  local name
  for name; do
    sed "s|@state@|$state|g; s|@port@|${BERTH_BOX_PORT:-16817}|g" "$documents/box/$name" > "$state/stand-in"
    root install -m 755 "$state/stand-in" "/usr/local/bin/$name"
  done
  rm "$state/stand-in"
}

teardown_file() {
  root rm -f /usr/local/bin/{nvidia-smi,systemctl}
  stop_podman
  kill "$(cat "$BATS_FILE_TMPDIR/asking.pid")"
  forget_images
  forget_images_at_login
}

# The registry has the images under the names that the pages have, as a mirror of those that a site would ask.
setup() {
  cancel_everything
  clean
  local name lines=()
  for name in "${registries[@]}"; do lines+=("[registry.\"$name\"]" "mirror = [\"$registry\"]"); done
  with_site_lines "${lines[@]}" '[share]' "artifacts = \"$registry/site/documents\"" '[events]' \
    'log = "/tmp/events/%u.jsonl"' 'counters = "/tmp/events"'
  root install -d -m 1777 /tmp/events /tmp/lustre
  root cp -a "$folder/berth.conf" /etc/slurm/kept-by-documents
  in_home 'mkdir documents'
}

teardown() {
  cancel_everything
  clean
}

# What a page's commands may have left, however far they came.
clean() {
  restore_site
  root bash -c "[[ ! -e /etc/slurm/kept-by-documents ]] || mv /etc/slurm/kept-by-documents $folder/berth.conf
    rm -f $folder/{pyxis.conf,berth.conf.disabled,.berth.conf.disabled} /etc/slurm/pyxis.conf.off"
  rm -rf "${pyxis%/*}" "$state"/podman-{images,run}
  for node in n1 n2; do terminals_as_before "$node"; done
  root bash -c 'cd /home && rm -rf alice/{documents,.ssh,.config/berth,.docker} bob/.ssh /tmp/{events,lustre} \
      /usr/local/bin/{podman,docker,snakemake,nextflow} /usr/bin/{apptainer,singularity} \
      /etc/berth/{environments,images.list} /etc/systemd/system/berth-mirror.*
    ! id berth-images > /dev/null 2>&1 || userdel --remove berth-images 2> /dev/null
    sed "/login.example.org/d" /etc/hosts > /tmp/hosts && cat /tmp/hosts > /etc/hosts && rm /tmp/hosts
    [[ ! -e /tmp/login-sshd.pid ]] || kill "$(cat /tmp/login-sshd.pid)"
    rm -f /tmp/login-*'
}

# What is typed, and the output of what comes out otherwise than the page says: types PAGE.
types() {
  export BERTH_NOISE="$slurm_waits|$progress_line"
  run -0 timeout 1800 python3 -B "$documents/typed.py" type "$state" "$registry" "$1"
  [[ -z ${BERTH_DOCUMENTS_SHOW:-} ]] || sed 's/^/# /' <<< "$output" >&3
  expect_output_like "$1.md: [1-9][0-9]* commands typed"
}

@test "README.md: its commands do what it says" { types README; }
@test "usage.md: its commands do what it says" { types usage; }
@test "environments.md: its commands do what it says" { types environments; }
@test "ssh.md: its commands do what it says" {
  for node in n1 n2; do terminals_of_distributions "$node"; done
  types ssh
}
@test "shared-stores.md: its commands do what it says" {
  forget_images
  types shared-stores
}
@test "pilot.md: its commands do what it says" { types pilot; }

@test "rollback.md: its commands do what it says" {
  make_like_pyxis
  types rollback
}

# The names of berth-apptainer's.
types_with_apptainer() {
  local name
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  types "$1"
}

@test "migration-apptainer.md: its commands do what it says" { types_with_apptainer migration-apptainer; }
@test "migration-charliecloud.md: its commands do what it says" { types_with_apptainer migration-charliecloud; }
@test "migration-shifter.md: its commands do what it says" { types migration-shifter; }

@test "recipes.md: its commands do what it says" {
  stand_in podman snakemake nextflow
  root ln -s podman /usr/local/bin/docker
  types recipes
}
