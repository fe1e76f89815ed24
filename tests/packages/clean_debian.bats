#!/usr/bin/env bats
# The Debian packages on a Debian 12 that has nothing else, in the order of a machine's life: installed, used, upgraded,
# removed, purged.

bats_require_minimum_version 1.5.0

setup_file() {
  export repo build tmp=$BATS_FILE_TMPDIR root=$BATS_FILE_TMPDIR/root
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$(cd "$repo" && realpath -m "${BUILD:-build}")
  chmod 755 "$BATS_RUN_TMPDIR" "$tmp"
  make -s -C "$repo" deb tarball > "$tmp/make.log" || { cat "$tmp/make.log" >&2; return 1; }
  mkdir "$root"
  tar -xf "$("$repo/scripts/make-test-image" --base)" -C "$root"
  mksquashfs "$root" "$tmp/image.sqsh" -noI -noD -noF -noX -quiet -no-progress > /dev/null
  fetch_needs
  mkdir "$root/packages"
  cp "$build"/deb/berth_*.deb "$build"/deb/berth-slurm_*.deb "$tmp"/needs/*.deb "$root/packages"
}

# What the packages depend on and the clean Debian lacks, as apt says.
fetch_needs() {
  mkdir -p "$tmp/needs/partial" /var/cache/berth-test/needs
  cp /var/cache/berth-test/needs/*.deb "$tmp/needs" 2> /dev/null || true
  apt-get install -qq --download-only --no-install-recommends -y -o Dir::State::status="$root/var/lib/dpkg/status" \
    -o Dir::State::extended_states=/dev/null \
    -o Dir::Cache::archives="$tmp/needs" -o APT::Sandbox::User=root "$build"/deb/berth_*.deb \
    "$build"/deb/berth-slurm_*.deb > "$tmp/apt.log" 2>&1 ||
    { cat "$tmp/apt.log" >&2; return 1; }
  rm -f "$tmp"/needs/berth*.deb
  cp "$tmp"/needs/*.deb /var/cache/berth-test/needs
}

as_root() { "$repo/tests/packages/inside" "$root" 0 "$@"; }
as_user() { "$repo/tests/packages/inside" "$root" 2100 "$@"; }

fail() {
  printf '%s\n' "$@" >&2
  return 1
}

expect_equal() {
  [[ $1 == "$2" ]] || fail "expected: $2" "got:      $1"
}

@test "the tarball runs where nothing is installed, in a user's folder: its libraries are its own" {
  install -d -o 2100 -g 2100 "$root/opt/user"
  tar -xf "$build"/dist/berth-*-linux-"$(uname -m)".tar.gz -C "$root/opt/user" --strip-components=1
  cp "$tmp/image.sqsh" "$root/srv/"
  as_user ldd /opt/user/libexec/berth/berth-pull > "$BATS_TEST_TMPDIR/libraries"
  expect_equal "$(grep 'not found' "$BATS_TEST_TMPDIR/libraries" || true)" ""
  # Of the system is the C library alone.
  expect_equal "$(awk '$3 ~ "^/" && $3 !~ "^/opt/user/" { print $3 }' "$BATS_TEST_TMPDIR/libraries" |
    grep -vE '/(libc|libm|libresolv|libdl|librt|libpthread)\.so' || true)" ""
  grep -q '=> /opt/user/.*/libcurl' "$BATS_TEST_TMPDIR/libraries"
  run -0 as_user /opt/user/libexec/berth/berth-pull --version
  run -0 as_user /opt/user/bin/berth run /srv/image.sqsh sh -c 'id -u; . /etc/os-release; echo $VERSION_ID'
  [[ $output == *$'2100\n12' ]] || fail "$output"
  run ! as_user /opt/user/bin/berth pull 127.0.0.1:1/nothing:1
  [[ $output == *"no answer from 127.0.0.1:1"* ]] || fail "$output"
  # The same program to the byte: it starts containers as fast.
  cmp "$build/berth" "$root/opt/user/bin/berth"
  rm -rf "$root/opt/user" "$root/srv/image.sqsh" "$root/tmp/.cache"
}

@test "the packages go onto a clean Debian with what they name as their needs" {
  run -0 as_root sh -c 'dpkg --install /packages/*.deb'
  run -0 as_root dpkg --verify berth berth-slurm
  expect_equal "$output" ""
}

# A stand-in for SchedMD's package of Slurm, of release $1.
slurm_package() {
  mkdir -p "$tmp/smd/DEBIAN"
  printf '%s\n' "Package: slurm-smd" "Version: $1.1" "Architecture: all" "Maintainer: nobody <nobody@berth.invalid>" \
    "Description: stand-in" > "$tmp/smd/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$tmp/smd" "$root/packages/slurm-smd.deb" > /dev/null
}

@test "the plugin's package stands beside a Slurm of its release, whoever made it, and beside no other" {
  slurm_package 99.05
  run as_root dpkg --install /packages/slurm-smd.deb
  (( status )) && [[ $output == *"berth-slurm"*breaks* ]] || fail "$output"
  slurm_package "$(dpkg-query -W -f '${Version}' libslurm-dev | grep -o '^[0-9]*\.[0-9]*')"
  run -0 as_root dpkg --install /packages/slurm-smd.deb
  run -0 as_root dpkg --purge slurm-smd
  rm "$root/packages/slurm-smd.deb"
}

# What bash makes of the beginning of a line.
completed() {
  as_user bash -ec \
    '. /usr/share/bash-completion/completions/berth; COMP_LINE=$1 COMP_POINT=${#1}; _berth; echo "${COMPREPLY[*]}"' \
      bash "$1"
}

@test "what a person looks for is there" {
  run -0 as_user berth --help
  [[ $output == *"usage: berth"* ]] || fail "$output"
  as_user /usr/libexec/berth/berth-pull --version
  for page in man1/berth.1 man5/berth.conf.5 man7/berth-hooks.7 man8/spank_berth.8; do
    gzip -t "$root/usr/share/man/$page.gz"
  done
  as_user bash -ec '. /usr/share/bash-completion/completions/berth; complete -p berth'
  expect_equal "$(completed 'berth pul')" pull
  expect_equal "$(completed 'berth run --na')" --name
  expect_equal "$(completed 'berth pull --policy ')" "newer missing always never"
  zsh -n "$root/usr/share/zsh/vendor-completions/_berth"
  expect_equal "$(grep -v '^#' "$root/usr/share/berth/plugstack.conf")" \
    "required spank_berth.so helper=/usr/bin/berth"
  [[ ! -e $root/etc/slurm/plugstack.conf.d/berth.conf ]] || fail "the plugin is active"
  test -e "$(find "$root/usr/lib" -path '*/slurm-wlm/spank_berth.so')"
  # All that the plugin links, Slurm's own symbols aside, is there.
  as_user bash -c 'ldd /usr/lib/*/slurm-wlm/spank_berth.so' | grep -v 'not found' > /dev/null
  ! as_user bash -c 'ldd /usr/lib/*/slurm-wlm/spank_berth.so /usr/bin/berth /usr/libexec/berth/berth-pull' |
    grep 'not found'
}

@test "a user has a store without a line of configuration, and runs a container" {
  cp "$tmp/image.sqsh" "$root/srv/"
  # Until a job makes the user's folder on this node, the images are in the home, which is said once.
  run -0 --separate-stderr as_user berth images
  [[ $stderr == "berth: images are kept in /tmp/.cache/berth, since there is no /var/lib/berth/2100 here, "* ]] ||
    fail "$stderr"
  run -0 --separate-stderr as_user berth images
  expect_equal "$stderr" ""
  expect_equal "$(stat -c '%a %u' "$root/var/lib/berth" "$root/tmp/.cache/berth" | xargs)" "755 0 700 2100"
  run as_user berth doctor --json
  jq -e '.usable or (.findings | all(.verdict != "failed" or .advice != ""))' <<< "$output"
  run -0 as_user berth run /srv/image.sqsh sh -c 'id -u; . /etc/os-release; echo $VERSION_ID'
  expect_equal "$output" $'2100\n12'
  install -d -o 2100 -g 2100 -m 700 "$root/var/lib/berth/2100"
  run -0 as_user berth run --name dev-box /srv/image.sqsh true
  expect_equal "$(completed 'berth exec de')" dev-box
}

@test "config tells where settings come from, and what is wrong with a file" {
  printf '[store]\npull = "missing"\n' > "$root/etc/berth/berth.conf"
  run -0 as_user env BERTH_MOUNT_THREADS=3 berth config show --json
  expect_equal "$(jq -r '.keys[] | select(.key == "store.pull") | "\(.value) \(.origin.file):\(.origin.line)"' \
    <<< "$output")" "missing /etc/berth/berth.conf:2"
  expect_equal "$(jq -r '.keys[] | select(.key == "mount.threads") | "\(.value) \(.origin.variable)"' <<< "$output")" \
    "3 BERTH_MOUNT_THREADS"
  expect_equal "$(jq -r '.keys[] | select(.key == "store.path") | "\(.value) \(.origin.from)"' <<< "$output")" \
    "/var/lib/berth/%U default"
  run -0 as_user berth config check
  chown 2100 "$root/etc/berth/berth.conf"
  for words in "config check" "config show" images "run /srv/image.sqsh true"; do
    # shellcheck disable=SC2086
    run ! as_user berth $words
    [[ $output == *"/etc/berth/berth.conf: it can be written by somebody else than root; run chown root"* ]] ||
      fail "$words: $output"
  done
  chown 0 "$root/etc/berth/berth.conf"
  chmod 666 "$root/etc/berth/berth.conf"
  run -1 as_user berth config check
  printf '[limits]\ntmpfs_size = "2X"\n' > "$root/srv/draft"
  run -1 as_user berth config check /srv/draft
  expected=$'/srv/draft:2:14: limits.tmpfs_size: \'2X\' is no size (write a number with K, M, G or T)\n'
  expected+=$'  tmpfs_size = "2X"\n               ^'
  expect_equal "$output" "$expected"
  printf '[store]\npull = "often"\npath = \n[limits]\nsize = 1\n' > "$root/srv/draft"
  run -1 as_user berth config check /srv/draft
  expect_equal "$(grep -o '^/srv/draft:[0-9:]*' <<< "$output" | xargs)" \
    "/srv/draft:2:8: /srv/draft:3:8: /srv/draft:5:1:"
  expect_equal "$(grep -c '^ *^$' <<< "$output")" 3
  chmod 644 "$root/etc/berth/berth.conf"
}

@test "root has Slurm load the plugin by one command, as by one link, and takes that back" {
  mkdir -p "$root/etc/slurm"
  echo 'include /etc/slurm/plugstack.conf.d/*.conf' > "$root/etc/slurm/plugstack.conf"
  run -0 as_root berth setup plugstack --enable
  expect_equal "$(readlink "$root/etc/slurm/plugstack.conf.d/berth.conf")" /usr/share/berth/plugstack.conf
  [[ $output == *"/etc/slurm/plugstack.conf leads to it: restart slurmd" ]] || fail "$output"
  run -0 as_root berth setup plugstack --disable
  expect_equal "$(ls -A "$root/etc/slurm/plugstack.conf.d")" ""
  run ! as_user berth setup plugstack --enable
  [[ $output == *"(root may): Permission denied" ]] || fail "$output"
  run ! as_root berth setup plugstack
  rm -r "$root/etc/slurm"
}

# A next version whose settings differ from those of this one.
next_version() {
  dpkg-deb -R "$root"/packages/berth_*.deb "$tmp/next"
  sed -i 's/^Version: .*/Version: 99-1/' "$tmp/next/DEBIAN/control"
  echo '# of the next version' >> "$tmp/next/etc/berth/berth.conf"
  dpkg-deb --root-owner-group -Znone --build "$tmp/next" "$root/packages/next.deb" > /dev/null
}

@test "an edited berth.conf stays through an upgrade and a removal, and goes with a purge" {
  printf '[store]\npull = "missing"\n' > "$root/etc/berth/berth.conf"
  next_version
  # The plugin's package wants its own runtime.
  run ! as_root dpkg --install /packages/next.deb
  run -0 as_root dpkg --remove berth-slurm
  run -0 as_root dpkg --force-confold --install /packages/next.deb
  grep -q 'pull = "missing"' "$root/etc/berth/berth.conf"
  run -0 as_root dpkg --remove berth
  [[ ! -e $root/usr/bin/berth ]]
  grep -q 'pull = "missing"' "$root/etc/berth/berth.conf"
  run -0 as_root dpkg --purge berth berth-slurm
  [[ ! -e $root/etc/berth ]]
  expect_equal "$(find "$root/etc" -name 'berth*')" ""
  # Users' images are theirs.
  [[ -d $root/var/lib/berth/2100 ]]
}

# The package as it is made on Ubuntu, of programs that are sooner packed than berth's.
ubuntu_package() {
  mkdir "$tmp/ubuntu"
  for program in berth berth-pull berth-mig spank_berth.so; do cp /bin/true "$tmp/ubuntu/$program"; done
  BERTH_APPARMOR=yes DEB_BUILD_OPTIONS="nostrip noautodbgsym" "$repo/scripts/make-debs" "$tmp/ubuntu" \
    "$(sed -n 's/^VERSION := //p' "$repo/Makefile")" > /dev/null
  cp "$tmp"/ubuntu/deb/berth_*.deb "$root/packages/ubuntu.deb"
}

# A program of AppArmor in the root: stand_in NAME CODE.
stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" > "$root/usr/local/sbin/$1"
  chmod 755 "$root/usr/local/sbin/$1"
}

@test "the package made on Ubuntu loads its AppArmor profile where there is AppArmor, and is installed in any case" {
  ubuntu_package
  run -0 as_root dpkg --install /packages/ubuntu.deb
  profile=$root/etc/apparmor.d/berth
  expect_equal "$(grep -v '^#' "$profile" | xargs)" "abi <abi/4.0>, include <tunables/global> profile berth \
/usr/bin/berth flags=(unconfined) { userns, include if exists <local/berth> }"
  expect_equal "$(as_root dpkg-query -W -f '${Conffiles}' berth | awk '{ print $1 }' | xargs)" \
    "/etc/apparmor.d/berth /etc/berth/berth.conf"
  # Debian 12 has AppArmor 3, which does not know the rule.
  [[ ! -e /etc/apparmor.d/abi/4.0 ]] || apparmor_parser --skip-kernel-load --skip-cache "$profile"
  # shellcheck disable=SC2016
  stand_in apparmor_parser 'echo "$*" > /asked'
  stand_in aa-enabled 'exit 1'
  run -0 as_root dpkg --install /packages/ubuntu.deb
  [[ ! -e $root/asked ]] || fail "the profile was loaded where AppArmor is off"
  stand_in aa-enabled 'exit 0'
  run -0 as_root dpkg --install /packages/ubuntu.deb
  expect_equal "$(cat "$root/asked")" "--replace --skip-read-cache --write-cache /etc/apparmor.d/berth"
  stand_in apparmor_parser 'exit 1'
  run -0 as_root dpkg --install /packages/ubuntu.deb
  [[ $output == *"berth: loading /etc/apparmor.d/berth: apparmor_parser refused it"* ]] || fail "$output"
  run -0 as_root dpkg --purge berth
  [[ ! -e $profile ]] || fail "a purge leaves the profile"
}
