#!/usr/bin/env bats
# A store that the site offers (store.shared), as steps see it.
load helper

offered=$state/offered

# Bob is the service account: fill LINE... mirrors a list of these lines.
fill() {
  # shellcheck disable=SC2016
  bob bash -c 'printf "%s\n" "$@" > ~/images.list && BERTH_STORE_PATH=$0 exec berth mirror --prune ~/images.list' \
    "$offered" "$@"
}

# Name, inode, mode, size and times of all that is in it.
state_of_store() { root find "$offered" -printf '%p %i %m %s %T@ %C@\n' | sort; }

setup() {
  root rm -rf "$offered"
  root install -d -o bob -m 755 "$offered"
  # The box's file ends in [store].
  with_site_lines "shared = [\"$offered\"]" 'shared_owner = "bob"'
  forget_images
}

teardown() {
  restore_site
  root rm -rf "$offered"
}

@test "a step runs an image of a shared store, pulls no layer and writes nothing there" {
  run -0 fill "$image"
  before=$(state_of_store)
  mark_log
  run -0 contained -n2 sh -c 'grep -c VERSION_ID /etc/os-release'
  expect_equal "$(sort -u <<< "$output")" 1
  expect_equal "$(log_since GET /blobs/)" ""
  expect_equal "$(state_of_store)" "$before"
  run -0 alice srun -w n1 berth images
  [[ $output == *"in the shared store $offered, which all users read:"*debian:12* ]] || fail "$output"
  expect_equal "$(published)" ""
}

@test "a shared store of another account is one line, and the step pulls for itself" {
  run -0 fill "$image"
  root chown alice "$offered"
  run -0 contained true
  expect_one_error_line
  expect_output_like "shared store $offered: belongs to uid [0-9]+, not to store.shared_owner \(uid [0-9]+\) or root; "
}

@test "a mirror goes on at a failure, and ends with one; --prune removes the names that are gone from the list" {
  run fill "$image" "$registry/debian:no-such-tag" "$registry/debian@sha256:0"
  expect_status 125
  [[ $output == *"$image sha256:"* ]] || fail "$output"
  expect_equal "$(grep -c '^berth: ' <<< "$output")" 3
  run -0 bob env BERTH_STORE_PATH="$offered" berth images
  [[ $output == *debian:12* ]] || fail "$output"
  run -0 fill "$registry/debian:zstd"
  [[ $output == *"removed the tag $image"* ]] || fail "$output"
  run bob env BERTH_STORE_PATH="$offered" berth gc --size 1G
  expect_status 125
  expect_output_like 'whose readers leave no trace'
  run -0 bob env BERTH_STORE_PATH="$offered" berth gc --age 1
  expect_output_like 'removed 0 images'
}

@test "no system call of a start writes to a shared store" {
  run -0 fill "$image"
  # shellcheck disable=SC2016
  run -0 in_home "strace -f -y -o trace berth run $image true && grep -F '<$offered' trace && rm trace"
  [[ $output == *openat2*layers* ]] || fail "the layers are not opened there:" "$output"
  writes='O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE| (p?write(v|64)?|rename(at2?)?|link(at)?|symlink(at)?|unlink(at)?'
  writes+='|mkdir(at)?|f?chmod(at2?)?|f?chown(at)?|utimensat|f?truncate|fallocate|flock|f?setxattr|fsync|fdatasync)\('
  expect_equal "$(grep -E "$writes" <<< "$output" || true)" ""
}
