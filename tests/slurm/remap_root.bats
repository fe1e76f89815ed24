#!/usr/bin/env bats
# --container-remap-root: the user is root inside, and package managers believe it.
load helper

make_package() {
  in_home 'rm -rf deb; mkdir -p deb/pkg/DEBIAN deb/pkg/usr/share/berth-test
    printf "%s\n" "Package: berth-test" "Version: 1.0" "Architecture: all" "Maintainer: nobody <nobody@example.org>" \
      "Description: a test" > deb/pkg/DEBIAN/control
    printf "#!/bin/sh\nset -e\nchown 5:5 /usr/share/berth-test/file\n" > deb/pkg/DEBIAN/postinst
    chmod 755 deb/pkg/DEBIAN/postinst
    echo installed > deb/pkg/usr/share/berth-test/file
    dpkg-deb --root-owner-group --build deb/pkg deb/berth-test.deb'
}

@test "id is root inside and the user's without it" {
  run -0 contained --container-remap-root sh -c 'id -u; id -g; id -un'
  expect_equal "$output" $'0\n0\nroot'
  run -0 contained --no-container-remap-root id -u
  expect_equal "$output" 2001
}

@test "files of the image belong to root" {
  run -0 contained --container-remap-root stat -c '%u:%g' /etc/os-release /usr/bin/bash
  expect_equal "$(sort -u <<< "$output")" 0:0
}

@test "apt-get install of a local package works" {
  make_package
  run -0 contained --container-remap-root --container-writable --container-mounts=/home/alice/deb:/deb:ro \
    sh -c 'apt-get install -y /deb/berth-test.deb && cat /usr/share/berth-test/file'
  expect_output_like "Setting up berth-test"
  expect_equal "${lines[-1]}" installed
}

@test "a change of owner is believed, and no_new_privs holds" {
  run -0 contained --container-remap-root sh -c \
    'touch /tmp/f && chown 33:33 /tmp/f && grep NoNewPrivs /proc/self/status'
  expect_output_like "NoNewPrivs:[[:blank:]]*1"
}

@test "what root inside writes to a mount belongs to the user outside" {
  in_home 'mkdir -p in; rm -f in/by-root'
  run -0 contained --container-remap-root --container-mounts=/home/alice/in:/data sh -c 'echo x > /data/by-root'
  run -0 alice stat -c %U in/by-root
  expect_equal "$output" alice
}

@test "root inside is not root outside" {
  run contained --container-remap-root --container-mounts=/etc:/host-etc sh -c \
    'echo x >> /host-etc/shadow || cat /host-etc/shadow'
  expect_failure
  run contained --container-remap-root --container-mounts=/proc/sys:/host-sys sh -c \
    'echo x > /host-sys/kernel/hostname || hostname x'
  expect_failure
}

@test "root inside writes where modes forbid it, and mounts nothing" {
  run -0 contained --container-remap-root sh -c \
    'mkdir -m 555 /opt/d && echo x > /opt/d/x && chmod 0 /opt/d/x && cat /opt/d/x;
      chmod 555 /usr/bin && touch /usr/bin/new'
  expect_equal "$output" x
  run contained --container-remap-root sh -c 'mount -t tmpfs none /mnt || umount /proc/keys || hostname x'
  expect_failure
}

@test "the home of root inside is /root" {
  in_home 'mkdir -p in; echo content > in/x'
  run -0 contained --container-remap-root --container-mount-home sh -c 'echo $HOME; cat $HOME/in/x'
  expect_equal "$output" $'/root\ncontent'
}

@test "the map of user ids has one line, with and without it, and system calls are filtered in both" {
  show="xargs < /proc/self/uid_map; grep Seccomp: /proc/self/status | tr -d '[:blank:]'"
  run -0 contained --container-remap-root sh -c "$show"
  expect_equal "$output" $'0 2001 1\nSeccomp:2'
  run -0 contained --no-container-remap-root sh -c "$show"
  expect_equal "$output" $'2001 2001 1\nSeccomp:2'
}
