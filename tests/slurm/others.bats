#!/usr/bin/env bats
# Root file systems that are directories of root's, as sites keep them for all.
load helper

# In the homes' folder, which all nodes see.
tree=/home/shared-root

setup_file() {
  in_home "berth import --quiet -o others.sqsh $registry/debian:12"
  root bash -c "rm -rf $tree && unsquashfs -quiet -no-progress -d $tree /home/alice/others.sqsh > /dev/null &&
    chown -R root:root $tree && chmod 755 $tree && mkdir -m 700 $tree/private && echo secret > $tree/private/secret"
}

teardown_file() {
  root rm -rf "$tree"
  in_home 'rm -rf others.sqsh others'
}

setup() { in_home 'rm -rf others; mkdir others'; }

teardown() { cancel_everything; }

# One task of alice's on n1 in root's tree.
in_tree() { alice srun -w n1 --container-image="$tree" "$@"; }

# What any of them sees: the tree's files, an account, and nothing of what is root's alone.
look='grep -c . /etc/hosts > /dev/null && stat -c %U /usr && id -un && cat /private/secret 2> /dev/null || echo closed'

@test "a step in root's tree, by a user and by one who is root inside" {
  run -0 in_tree sh -c "$look"
  expect_equal "$output" $'nobody\nalice\nclosed'
  run -0 in_tree --container-remap-root sh -c "$look"
  expect_equal "$output" $'nobody\nroot\nclosed'
  run -0 in_tree --container-readonly sh -c "$look; touch /etc/new 2> /dev/null || echo read-only"
  expect_equal "$output" $'nobody\nalice\nclosed\nread-only'
  run -0 in_tree sh -c 'echo mine > /etc/new && cat /etc/new'
  expect_equal "$output" mine
  run -0 root bash -c "test ! -e $tree/etc/new && stat -c %U $tree/etc $tree/etc/passwd"
  expect_equal "$output" $'root\nroot'
  expect_no_leftovers
}

@test "mounts in root's tree, and its links" {
  in_home 'echo of alice > others/file'
  run -0 in_tree --container-mounts=/home/alice/others:/srv/deep/a,/home/alice/others:/bin/b \
    sh -c 'cat /srv/deep/a/file /usr/bin/b/file'
  expect_equal "$output" $'of alice\nof alice'
  run in_tree --container-mounts=/home/alice/others:/private/a true
  expect_failure
  expect_one_error_line
  expect_output_like "at /private/a .*Permission denied"
}

@test "a named container of root's tree" {
  run -0 in_tree --container-name=others sh -c 'echo kept > /etc/kept'
  run -0 alice srun -w n1 --container-name=others --container-mounts=/home/alice/others:/opt/x/y \
    sh -c 'cat /etc/kept; id -un; ls -d /opt/x/y'
  expect_equal "$output" $'kept\nalice\n/opt/x/y'
  run -0 alice srun -w n1 berth rm others
}

@test "root's tree is saved with what alice may read of it" {
  run -0 in_tree --container-save=/home/alice/others/a.sqsh sh -c 'echo new > /etc/new'
  expect_output_like "saving $tree: [0-9]+ files and directories of other users that you may not read are left out"
  run -0 alice srun -w n1 --container-image=/home/alice/others/a.sqsh sh -c 'cat /etc/new; id -un; ls -A /private'
  expect_equal "$output" $'new\nalice'
}
