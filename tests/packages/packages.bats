#!/usr/bin/env bats
# The packages of both formats, made of the programs that are built, and what a clean Debian 12 makes of them.

bats_require_minimum_version 1.5.0

setup_file() {
  export repo build tmp=$BATS_FILE_TMPDIR
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$(cd "$repo" && realpath -m "${BUILD:-build}")
  make -s -C "$repo" deb
  make_rpms
  export berth_deb slurm_deb enroot_deb apptainer_deb mig_deb berth_rpm slurm_rpm enroot_rpm apptainer_rpm mig_rpm
  berth_deb=$(echo "$build"/deb/berth_*.deb)
  slurm_deb=$(echo "$build"/deb/berth-slurm_*.deb)
  enroot_deb=$(echo "$build"/deb/berth-enroot_*.deb)
  apptainer_deb=$(echo "$build"/deb/berth-apptainer_*.deb)
  mig_deb=$(echo "$build"/deb/berth-mig_*.deb)
  berth_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-[0-9]*.rpm)
  slurm_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-slurm-[0-9]*.rpm)
  enroot_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-enroot-[0-9]*.rpm)
  apptainer_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-apptainer-[0-9]*.rpm)
  mig_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-mig-[0-9]*.rpm)
}

# Of the files as they lie here, with the programs that are built already.
make_rpms() {
  local version
  version=$(sed -n 's/^VERSION := //p' "$repo/Makefile")
  mkdir -p "$tmp/rpm/SOURCES"
  git -C "$repo" ls-files -z --cached --others --exclude-standard |
    tar -C "$repo" --null -T - --ignore-failed-read --transform "s|^|berth-$version/|" \
      -czf "$tmp/rpm/SOURCES/berth-$version.tar.gz"
  rpmbuild -bb --quiet --nodeps --nocheck --define "_topdir $tmp/rpm" --define "built_tree $build" \
    "$repo/rpm/berth.spec" > "$tmp/rpm.log" 2>&1 ||
    { cat "$tmp/rpm.log" >&2; return 1; }
}

fail() {
  printf '%s\n' "$@" >&2
  return 1
}

expect_equal() {
  [[ $1 == "$2" ]] || fail "expected: $2" "got:      $1"
}

# "MODE OWNER GROUP PATH" of a package's files and of the folders that are berth's own, without what only one format
# has: Debian's notes and rpm's links by build id; and under the same names where the formats have rules of their own.
contents() {
  case $1 in
    *.deb) dpkg-deb -c "$1" | sed -E 's|^(.{10}) ([^/]*)/(\S*) +\S+ \S+ \S+ \.|\1 \2 \3 |' |
      grep -Ev '/(copyright|changelog\.Debian\.gz)$|/lintian/' | sed 's|/$||' ;;
    *.rpm) rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]' "$1" |
      grep -v /\.build-id ;;
  esac | sed -E -e 's|(/man[1-8]/.*)\.gz$|\1|' -e 's|/usr/\S*/(spank_berth.so)$|PLUGINS/\1|' \
    -e 's|/zsh/vendor-completions/|/zsh/site-functions/|' |
    grep -E '^-| /etc/berth| /usr/libexec/berth| /var/lib/berth| /usr/share/doc/berth|plugstack' | sort -k 4
}

@test "both formats have the same files, root's own, with the same modes" {
  diff <(contents "$berth_deb") <(contents "$berth_rpm")
  diff <(contents "$slurm_deb") <(contents "$slurm_rpm")
  contents "$berth_deb" | grep -q '^-rwxr-xr-x root root /usr/bin/berth$'
  contents "$berth_deb" | grep -q '^drwxr-xr-x root root /var/lib/berth$'
  contents "$slurm_deb" | grep -q '^-rw-r--r-- root root PLUGINS/spank_berth.so$'
  for file in "$berth_deb" "$slurm_deb"; do
    expect_equal \
      "$(contents "$file" |
        grep -Ev '^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x) root root' || true)" ""
  done
}

@test "all that make install installs is in one package, and in one only" {
  make -s -C "$repo" install-files install-enroot install-apptainer install-mig BUILD="$build" DESTDIR="$tmp/stage" \
    PREFIX=/usr > /dev/null
  expect_equal "$(for package in berth berth-slurm berth-enroot berth-apptainer berth-mig; do
    "$repo/scripts/package-files" "$tmp/stage" "$package" |
    grep -v '/$'; done | sort)" \
    "$(cd "$tmp/stage" && find . ! -type d -printf '/%P\n' | sort)"
}

@test "each link of the installed documents leads somewhere" {
  local stage=$BATS_TEST_TMPDIR/stage
  make -s -C "$repo" install-files BUILD="$build" DESTDIR="$stage" PREFIX=/usr > "$BATS_TEST_TMPDIR/make.log"
  run -0 "$repo/tests/packages/follow_links.py" "$stage/usr/share/doc/berth"
  expect_equal "$output" ""
  # One that leads nowhere is seen: a file that is not there, a heading, and what is outside of the folder.
  echo '[a](docs/none.md) [b](README.md#none) [c](../outside.md) [d](README.md)' > "$stage/usr/share/doc/berth/X.md"
  touch "$stage/usr/share/doc/outside.md"
  run ! "$repo/tests/packages/follow_links.py" "$stage/usr/share/doc/berth"
  expect_equal "$output" "X.md: docs/none.md
X.md: README.md#none
X.md: ../outside.md"
}

@test "neither apt nor dnf brings a Slurm along, whose plugins could be those of another release" {
  expect_equal "$(rpm -qp --recommends "$slurm_rpm")" ""
  expect_equal "$(rpm -qp --suggests "$slurm_rpm")" slurm
  expect_equal "$(dpkg-deb -f "$slurm_deb" Recommends)" ""
  expect_equal "$(dpkg-deb -f "$slurm_deb" Suggests)" "slurm-wlm-basic-plugins | slurm-smd"
}

@test "the command enroot is in a package of its own, which goes with its berth and not with Enroot" {
  diff <(contents "$enroot_deb") <(contents "$enroot_rpm")
  dpkg-deb -c "$enroot_deb" | grep -q ' ./usr/bin/enroot -> berth$'
  expect_equal "$(rpm -qp --qf '[%{FILENAMES} %{FILELINKTOS}\n]' "$enroot_rpm" | grep '^/usr/bin/')" \
    "/usr/bin/enroot berth"
  for file in "$berth_deb" "$slurm_deb"; do
    ! dpkg-deb -c "$file" | grep -i 'enroot\(\.1.*\)\{0,1\}$' || fail "$file has the name enroot"
  done
  [[ $(dpkg-deb -f "$enroot_deb" Conflicts) == *enroot* ]] || fail "$(dpkg-deb -I "$enroot_deb")"
  [[ $(dpkg-deb -f "$enroot_deb" Depends) == *"berth (= $(dpkg-deb -f "$berth_deb" Version))"* ]]
  expect_equal "$(rpm -qp --conflicts "$enroot_rpm")" enroot
}

@test "the commands apptainer and singularity are in a package of their own, which does not go with others of the name" {
  diff <(contents "$apptainer_deb") <(contents "$apptainer_rpm")
  for name in apptainer singularity; do
    dpkg-deb -c "$apptainer_deb" | grep -q " ./usr/bin/$name -> berth$"
    for file in "$berth_deb" "$slurm_deb" "$enroot_deb"; do
      ! dpkg-deb -c "$file" | grep "/$name\(\.1.*\)\{0,1\}$" || fail "$file has the name $name"
    done
  done
  expect_equal "$(dpkg-deb -f "$apptainer_deb" Conflicts)" \
    "apptainer, apptainer-suid, singularity-ce, singularity-container"
  [[ $(dpkg-deb -f "$apptainer_deb" Depends) == *"berth (= $(dpkg-deb -f "$berth_deb" Version))"* ]]
  expect_equal "$(rpm -qp --conflicts "$apptainer_rpm")" $'apptainer\nsingularity-ce'
}

@test "what divides GPUs is in a package of its own, and nothing of it goes where Slurm or systemd read" {
  diff <(contents "$mig_deb") <(contents "$mig_rpm")
  contents "$mig_deb" | grep -q '^-rwxr-xr-x root root /usr/sbin/berth-mig$'
  for file in "$mig_deb" "$mig_rpm"; do
    ! contents "$file" | grep -E '/etc/|/systemd/' || fail "$file has something in /etc"
  done
  expect_equal "$(dpkg-deb --ctrl-tarfile "$mig_deb" | tar -t | grep -v '/$' | sort | xargs)" "./control ./md5sums"
  expect_equal "$(rpm -qp --scripts --triggers "$mig_rpm")" ""
}

@test "packages run nothing when they are installed, and leave the site its settings" {
  control_files() { dpkg-deb --ctrl-tarfile "$1" | tar -t | grep -v '/$' | sort | xargs; }
  expect_equal "$(control_files "$berth_deb")" "./conffiles ./control ./md5sums"
  expect_equal "$(control_files "$slurm_deb")" "./control ./md5sums"
  expect_equal "$(rpm -qp --scripts --triggers "$berth_rpm" "$slurm_rpm")" ""
  expect_equal "$(rpm -qpc "$berth_rpm" "$slurm_rpm" | xargs)" \
    "/etc/berth/berth.conf"
  expect_equal "$(dpkg-deb -I "$berth_deb" conffiles)" "/etc/berth/berth.conf"
  # noreplace: a bit of rpm's flags of files.
  expect_equal "$(rpm -qp --qf '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' "$berth_rpm" "$slurm_rpm" | grep -c '^cn ')" 1
}

@test "the plugin's line is an example: nothing goes where Slurm reads" {
  for file in "$slurm_deb" "$slurm_rpm"; do
    contents "$file" | grep -q '^-rw-r--r-- root root /usr/share/berth/plugstack.conf$'
    ! contents "$file" | grep /etc/ || fail "$file has something in /etc"
  done
}

@test "the plugin's package is bound to the Slurm that it was built for, and to its runtime" {
  release=$(dpkg-query -W -f '${Version}' libslurm-dev | grep -o '^[0-9]*\.[0-9]*')
  expect_equal "$(rpm -qp --conflicts "$slurm_rpm" | xargs)" "slurm < $release slurm >= $release.99"
  for other in slurm-wlm-basic-plugins slurm-smd; do
    breaks=${breaks:+$breaks$'\n'}"$other (<< $release)"$'\n'"$other (>= $release.99)"
  done
  expect_equal "$(dpkg-deb -f "$slurm_deb" Breaks | sed 's/, /\n/g' | sort)" "$(sort <<< "$breaks")"
  depends=$(dpkg-deb -f "$slurm_deb" Depends)
  [[ $depends == *"berth (= $(dpkg-deb -f "$berth_deb" Version))"* ]] || fail "$depends"
  rpm -qp --requires "$slurm_rpm" | grep -q '^berth.* = '
}

@test "the distributions' own checks find nothing" {
  run -0 lintian --allow-root --fail-on error,warning "$berth_deb" "$slurm_deb" "$enroot_deb" "$apptainer_deb" \
    "$mig_deb"
  expect_equal "$output" ""
  run -0 rpmlint --config "$repo/rpm/rpmlint.toml" "$repo/rpm/berth.spec" "$tmp"/rpm/RPMS/*/*.rpm
  [[ $output == *"0 errors, 0 warnings"* ]] || fail "$output"
}

@test "debug information is kept, by build id" {
  dpkg-deb -x "$berth_deb" "$tmp/plain"
  dpkg-deb -x "$slurm_deb" "$tmp/plain"
  for file in "$build"/deb/*-dbgsym_*.deb; do dpkg-deb -x "$file" "$tmp/debug"; done
  for program in "$tmp"/plain/usr/bin/berth "$tmp"/plain/usr/libexec/berth/berth-pull \
      "$(find "$tmp/plain" -name spank_berth.so)"; do
    id=$(readelf -n "$program" | sed -n 's/^ *Build ID: //p')
    run -0 readelf -S "$tmp/debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
    [[ $output == *.debug_info* ]] || fail "the debug information of $program is missing"
    run -0 readelf -S "$program"
    [[ $output != *.debug_info* ]] || fail "$program has its debug information itself"
  done
}

# A repository of all packages, signed by a key that nobody else has.
make_repository() {
  export GNUPGHOME=$tmp/gnupg
  if [[ ! -d $GNUPGHOME ]]; then
    install -d -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-gen-key berth-test rsa2048 sign never
  fi
  "$repo/scripts/make-repository" --key berth-test "$@"
}

apt_of_repository() {
  local state=$tmp/apt-state
  mkdir -p "$state/lists/partial" "$state/archives/partial"
  touch "$state/status"
  echo "deb [signed-by=$tmp/repository/berth.asc] file:$tmp/repository/apt ./" > "$state/berth.list"
  (cd "$state" && apt-get -q -o Dir::Etc::SourceList="$state/berth.list" -o Dir::Etc::SourceParts=- \
    -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state" -o APT::Sandbox::User=root "$@")
}

dnf_of_repository() {
  touch "$tmp/dnf.conf"
  dnf --quiet --config="$tmp/dnf.conf" --repofrompath="berth,file://$tmp/repository/rpm" --repo=berth \
    --setopt=berth.repo_gpgcheck=1 --setopt="berth.gpgkey=file://$tmp/repository/berth.asc" --assumeyes \
    --setopt=cachedir="$tmp/dnf" --setopt=persistdir="$tmp/dnf-state" --releasever=1 --refresh "$@"
}

@test "apt and dnf take the packages from a signed repository, and no others" {
  make_repository "$tmp/repository" "$berth_deb" "$berth_rpm"
  # More are added to those that are there.
  make_repository "$tmp/repository" "$slurm_deb" "$slurm_rpm"
  apt_of_repository update
  apt_of_repository download berth berth-slurm
  cmp "$berth_deb" "$tmp/apt-state/$(basename "$berth_deb")"
  expect_equal "$(dnf_of_repository repoquery --qf '%{name}' | sort | xargs)" "berth berth-slurm"

  # A package that is another one than the list says, and lists that nobody has signed.
  rm "$tmp/apt-state/"*.deb
  printf x >> "$tmp/repository/apt/$(basename "$berth_deb")"
  run apt_of_repository download berth
  (( status )) || fail "a changed package was taken"
  sed -i s/berth/borth/ "$tmp/repository/apt/InRelease"
  run apt_of_repository update
  [[ $output == *BADSIG* || $output == *"not signed"* || $output == *"invalid"* ]] || fail "$output"
  sed -i s/primary/secondary/ "$tmp/repository/rpm/repodata/repomd.xml"
  run dnf_of_repository repoquery
  (( status )) || fail "a changed list was taken: $output"
}

@test "a repository is made complete or not at all" {
  run -2 "$repo/scripts/make-repository" --key berth-test "$tmp/none" "$tmp/missing.deb"
  run make_repository "$tmp/none" "$berth_deb" "$tmp/rpm.log"
  expect_equal "$status" 2
  GNUPGHOME=$tmp/gnupg run "$repo/scripts/make-repository" --key nobody "$tmp/none" "$berth_deb"
  (( status )) || fail "it was made without a key"
  [[ ! -e $tmp/none && ! -e $tmp/none.new ]] || fail "there is something"
}

@test "make dist has the sources of what is committed, and a checksum that is signed" {
  export GNUPGHOME=$tmp/gnupg
  make -s -C "$repo" dist BUILD="$tmp/dist-build" KEY=berth-test
  (cd "$tmp/dist-build/dist" && sha256sum --quiet --check SHA256SUMS && gpg --quiet --verify SHA256SUMS.asc SHA256SUMS)
  tar -tzf "$tmp"/dist-build/dist/berth-*.tar.gz | grep -q '^berth-[0-9.]*/spank/'
}

# No system with dnf is at hand: what install-deps asks for on one, with stand-ins for dnf and for what rpm knows.
@test "install-deps installs by dnf what the spec names and is not there yet" {
  local bin=$BATS_TEST_TMPDIR/bin program
  mkdir "$bin"
  for program in bash sed dirname printf env; do ln -s "$(command -v "$program")" "$bin"; done
  # shellcheck disable=SC2016
  printf '#!/bin/bash\nprintf "%%s\\n" "$@" > "$ASKED"\n' > "$bin/dnf"
  # shellcheck disable=SC2016
  printf '#!/bin/bash\n[[ ${*: -1} == make ]]\n' > "$bin/rpm"
  chmod 755 "$bin/dnf" "$bin/rpm"
  run -0 env PATH="$bin" ASKED="$BATS_TEST_TMPDIR/asked" "$repo/scripts/install-deps" --build
  sed 1,2d "$BATS_TEST_TMPDIR/asked" | sort | diff - <(
    { sed -n 's/^BuildRequires: *//p' "$repo/rpm/berth.spec" | grep -vx make; echo rpm-build; } | sort)
  grep -qx 'pkgconfig(fuse3) >= 3.10' "$BATS_TEST_TMPDIR/asked"
  run -2 env PATH="$bin" "$repo/scripts/install-deps" --test
  [[ $output == *"with dnf there is --build alone"* ]] || fail "$output"
}

@test "install-deps leaves a Slurm of SchedMD's packages in place, which Debian's headers would remove" {
  # shellcheck disable=SC2329
  dpkg-query() { [[ ${*: -1} != slurm-smd-dev ]] || echo "install ok installed"; }
  export -f dpkg-query
  # As a user it names what is missing, and installs nothing.
  run -1 setpriv --reuid 2100 --regid 2100 --clear-groups bash -s -- --build < "$repo/scripts/install-deps"
  [[ $output == *"run as root to install g++ make"*" libssl-dev "* ]] || fail "$output"
  [[ $output != *libslurm-dev* ]] || fail "$output"
}
