#!/usr/bin/env bats
# By what a site takes Enroot's place, as a step sees it: defaults.unshare, site.enroot_config, hooks that were written
# for Enroot, defaults.home, security.root_capabilities.
load helper

teardown() {
  restore_site
  root rm -rf /etc/enroot-of-test /etc/berth/hooks.d
}

@test "defaults.unshare = uts: a step has a host name of its own, which begins as the node's" {
  node=$(alice srun -w n1 readlink /proc/self/ns/uts)
  with_site_lines '[defaults]' 'unshare = "uts"'
  run -0 contained -n2 sh -c 'readlink /proc/self/ns/uts; hostname'
  expect_equal "$(grep '^uts:' <<< "$output" | sort -u | wc -l)" 1
  [[ $output != *"$node"* ]] || fail "the node's: $output"
  expect_equal "$(grep -cx n1 <<< "$output")" 2
}

@test "row 15: site.enroot_config: a step has what tools write to environ.d and mounts.d, from its start on" {
  with_site_lines '[site]' 'enroot_config = "/etc/enroot-of-test"'
  root mkdir -p /etc/enroot-of-test/environ.d /etc/enroot-of-test/mounts.d
  # shellcheck disable=SC2016
  root sh -c 'echo "WHERE=\${SLURM_JOB_ID}" > /etc/enroot-of-test/environ.d/10-where.env
    echo "/etc/slurm /mnt/slurm none x-create=dir,bind,ro" > /etc/enroot-of-test/mounts.d/10-slurm.fstab'
  # shellcheck disable=SC2016
  run -0 contained sh -c 'test "$WHERE" = "$SLURM_JOB_ID" && ls /mnt/slurm/slurm.conf'
  expect_equal "$output" /mnt/slurm/slurm.conf
  root rm /etc/enroot-of-test/mounts.d/10-slurm.fstab
  run contained ls /mnt/slurm
  expect_failure
}

# A hook as sites have them, in hooks.d: enroot_hook NAME < text
enroot_hook() {
  # shellcheck disable=SC2016
  root bash -c 'mkdir -p /etc/berth/hooks.d && cat > "/etc/berth/hooks.d/$1" && chmod 755 "/etc/berth/hooks.d/$1"' \
    bash "$1"
}

@test "row 15: a hook written for Enroot runs once for a step and node, and each task has what it adds" {
  # shellcheck disable=SC2016
  enroot_hook 50-scratch.enroot <<'END'
#!/bin/bash
set -euo pipefail
source "${ENROOT_LIBRARY_PATH}/common.sh"
common::checkcmd id mkdir
[ "$(id -u)" != 0 ] || common::err "it runs as root"
scratch=/home/alice/scratch-${SLURM_JOB_ID}-${SLURMD_NODENAME}
mkdir "$scratch"
echo "$SLURMD_NODENAME" > "$scratch/node"
echo "SCRATCH=/scratch" >> "${ENROOT_ENVIRON}"
echo "$scratch /scratch none x-create=dir,bind,rw" >> "${ENROOT_MOUNTS}"
END
  # As from a batch script, whose variables a step inherits.
  # shellcheck disable=SC2016
  run -0 alice env SLURMD_NODENAME=n9 SLURM_NODEID=9 srun -N2 -n4 --container-image="$image" \
    sh -c 'cat "$SCRATCH/node"'
  expect_equal "$(sort -u <<< "$output")" $'n1\nn2'
  in_home 'rm -r scratch-*'
  expect_no_leftovers
  enroot_hook 50-scratch.enroot <<'END'
#!/bin/bash
source "${ENROOT_LIBRARY_PATH}/common.sh"
common::err "no scratch on this node"
END
  run contained true
  expect_failure
  expect_one_error_line
  expect_output_like 'hook /etc/berth/hooks.d/50-scratch.enroot: it ended with 1: no scratch on this node'
  expect_nodes_up
}

@test "row 24: SHELL and the passwd line name a shell that the image has" {
  shell=$(root getent passwd alice | cut -d: -f7)
  root usermod -s /usr/bin/no-such-shell alice
  # shellcheck disable=SC2016
  run alice env SHELL=/usr/bin/no-such-shell srun -w n1 --container-image="$image" \
    sh -c 'echo "$SHELL"; grep ^alice: /etc/passwd | cut -d: -f7'
  root usermod -s "$shell" alice
  expect_status 0
  expect_equal "$output" $'/bin/bash\n/bin/bash'
}

@test "defaults.home = skel: a step's home has the files of the image's /etc/skel" {
  with_site_lines '[defaults]' 'mount_home = false' 'home = "skel"'
  # shellcheck disable=SC2016
  run -0 contained sh -c 'cd "$HOME" && cmp .profile /etc/skel/.profile && test -O .profile && pwd'
  expect_equal "$output" /home/alice
}

@test "security.root_capabilities = mount: root inside mounts, without it root does not" {
  mounts='mkdir -p /a && mount -t tmpfs x /a && findmnt -no FSTYPE /a'
  run contained --container-remap-root sh -c "$mounts"
  expect_failure
  with_site_lines '[security]' 'root_capabilities = "mount"'
  run -0 contained --container-remap-root sh -c "$mounts"
  expect_equal "$output" tmpfs
  run contained sh -c "$mounts"
  expect_failure
}
