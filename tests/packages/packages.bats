#!/usr/bin/env bats
# The packages of both formats, made of the programs that are built, and what a clean Debian 12 makes of them.

bats_require_minimum_version 1.5.0

setup_file() {
  export repo build tmp=$BATS_FILE_TMPDIR
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$(cd "$repo" && realpath -m "${BUILD:-build}")
  make -s -C "$repo" deb
  make_rpms
  export berth_deb slurm_deb berth_rpm slurm_rpm
  berth_deb=$(echo "$build"/deb/berth_*.deb)
  slurm_deb=$(echo "$build"/deb/berth-slurm_*.deb)
  berth_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-[0-9]*.rpm)
  slurm_rpm=$(echo "$tmp"/rpm/RPMS/*/berth-slurm-[0-9]*.rpm)
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
      grep -Ev '/(copyright|changelog\.Debian\.gz)$' | sed 's|/$||' ;;
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
  make -s -C "$repo" install-files DESTDIR="$tmp/stage" PREFIX=/usr > /dev/null
  expect_equal "$(for package in berth berth-slurm; do "$repo/scripts/package-files" "$tmp/stage" "$package" |
    grep -v '/$'; done | sort)" \
    "$(cd "$tmp/stage" && find . ! -type d -printf '/%P\n' | sort)"
}

@test "packages run nothing when they are installed, and leave the site its settings" {
  for file in "$berth_deb" "$slurm_deb"; do
    expect_equal "$(dpkg-deb --ctrl-tarfile "$file" | tar -t | grep -v '/$' | sort | xargs)" \
      "./conffiles ./control ./md5sums"
  done
  expect_equal "$(rpm -qp --scripts --triggers "$berth_rpm" "$slurm_rpm")" ""
  expect_equal "$(rpm -qpc "$berth_rpm" "$slurm_rpm" | xargs)" \
    "/etc/berth/berth.conf /etc/slurm/plugstack.conf.d/berth.conf"
  expect_equal "$(for file in "$berth_deb" "$slurm_deb"; do dpkg-deb -I "$file" conffiles; done | xargs)" \
    "/etc/berth/berth.conf /etc/slurm/plugstack.conf.d/berth.conf"
  # noreplace: a bit of rpm's flags of files.
  expect_equal "$(rpm -qp --qf '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' "$berth_rpm" "$slurm_rpm" | grep -c '^cn ')" 2
}

@test "the plugin's package is bound to the Slurm that it was built for, and to its runtime" {
  release=$(rpm -qp --requires "$slurm_rpm" | sed -n 's/^(slurm >= \([0-9.]*\) with slurm < \([0-9.]*\)\.99)$/\1 \2/p')
  release=${release% *}
  dpkg-query -W -f '${Version}\n' libslurm-dev | grep -q "^$release\."
  depends=$(dpkg-deb -f "$slurm_deb" Depends)
  [[ $depends == *"slurm-wlm-basic-plugins (>= $release), slurm-wlm-basic-plugins (<< $release.99)"* ]] ||
    fail "$depends"
  [[ $depends == *"berth (= $(dpkg-deb -f "$berth_deb" Version))"* ]] || fail "$depends"
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
