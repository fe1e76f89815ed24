#!/usr/bin/env bats
# Keys by which a site takes Enroot's place, as a step sees them: defaults.unshare, site.enroot_config, defaults.home,
# security.root_capabilities.
load helper

teardown() {
  restore_site
  root rm -rf /etc/enroot-of-test
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
