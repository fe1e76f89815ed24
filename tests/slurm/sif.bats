#!/usr/bin/env bats
# SIF files that Berth writes, read by a reader that knows nothing of Berth, and signatures in them, made by gpg as the
# specification has it. Not compared with Apptainer itself.
# shellcheck disable=SC2016,SC2154
load helper

reader=$BATS_TEST_DIRNAME/sif_file.py

setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  in_home 'rm -rf sif; mkdir -m 0700 sif; cd sif
    apptainer --quiet pull d.sif docker://'"$image"' &&
    mkdir -m 0700 gpg && gpg --homedir gpg --batch --quiet --passphrase "" --quick-generate-key \
      "A Signer <a@example.org>" ed25519 sign never &&
    gpg --homedir gpg --batch --quiet --armor --export a@example.org > a.asc &&
    gpg --homedir gpg --batch --quiet --passphrase "" --quick-generate-key b@example.org ed25519 sign never &&
    cp d.sif signed.sif && python3 '"$reader"' sign signed.sif gpg a@example.org' > "$BATS_FILE_TMPDIR/made" 2>&1 ||
    cat "$BATS_FILE_TMPDIR/made" >&2
}

setup() { in_home 'rm -rf sif/keys; mkdir sif/keys'; }

teardown_file() {
  in_home 'gpgconf --homedir sif/gpg --kill all; rm -rf sif' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

# In alice's folder `sif`.
sif() { in_home "cd sif; export APPTAINER_KEYSDIR=\$PWD/keys; $1"; }
reads() { run -0 --separate-stderr sif "python3 $reader $1"; }

@test "sif: every field of a pulled file is what the specification says" {
  reads 'check d.sif'
  expect_equal "$output" good
  reads 'list d.sif'
  expect_equal "$(cut -d' ' -f 1-4 <<< "$output")" $'1 Def.FILE 1 0\n2 JSON.Generic 1 0\n3 JSON.Generic 1 0\n4 FS 1 0'
  reads 'dump d.sif 1'
  expect_equal "${lines[1]}" "from: $registry/debian@$(manifest_digest 12)"
  run -0 sif 'python3 '"$reader"' dump d.sif 2 | jq -r .type; python3 '"$reader"' dump d.sif 3 | jq -r .Env[0]'
  expect_equal "${lines[0]}" container
  expect_equal "${lines[1]%%=*}" PATH
}

@test "sif: the partition is one for the kernel, for squashfuse and for unsquashfs" {
  local offset
  offset=$(sif "python3 $reader list d.sif" | awk '$2 == "FS" {print $5}')
  run -0 sif "unsquashfs -offset $offset -cat d.sif .singularity.d/runscript"
  expect_equal "${lines[0]}" '#!/bin/sh'
  run -0 sif "unsquashfs -offset $offset -s d.sif"
  expect_output_like 'Compression gzip'
  run -0 root bash -c "cd ~alice/sif && mkdir -p m && mount -t squashfs -o loop,ro,offset=$offset d.sif m &&
    readlink m/.run && cat m/etc/debian_version; umount m"
  expect_equal "${lines[0]}" .singularity.d/actions/run
  run -0 sif "mkdir -p f; squashfuse -o offset=$offset d.sif f && cat f/.singularity.d/Singularity; fusermount3 -u f ||
    fusermount -u f"
  expect_equal "${lines[0]}" 'bootstrap: docker'
}

@test "sif: the same image is the same bytes, by whatever command and at any time" {
  run -0 sif "apptainer --quiet pull again.sif docker://$image; berth import --quiet -o other.sif $image > /dev/null
    apptainer --quiet build built.sif docker://$registry/debian@$(manifest_digest 12)
    sha256sum d.sif again.sif other.sif built.sif | cut -d' ' -f 1 | sort -u | wc -l"
  expect_equal "$output" 1
  run -0 sif 'rm -f again.sif other.sif built.sif'
}

@test "sif: zstd where it is asked for, and words that nobody understands are refused" {
  run -0 sif "apptainer --quiet build --mksquashfs-args '-comp zstd' z.sif docker://$image; python3 $reader check z.sif
    unsquashfs -offset \$(python3 $reader list z.sif | awk '\$2 == \"FS\" {print \$5}') -s z.sif | grep Compression"
  expect_equal "${lines[0]}" good
  expect_output_like 'Compression zstd'
  run -255 sif "apptainer build --mksquashfs-args '-b 1M' y.sif docker://$image"
  expect_output_like 'FATAL: .*--mksquashfs-args -b 1M: write'
  run -125 sif "berth import --compression brotli -o y.sif $image"
  expect_output_like 'brotli'
  run -255 sif "apptainer build d.sif docker://$image"
  expect_output_like 'Image file already exists: "d.sif"'
  run -255 sif 'echo "Bootstrap: docker" > x.def; apptainer build y.sif x.def'
  expect_output_like 'not built of definition files'
}

@test "sif: what a file says is what runs, in this program and by its own scripts" {
  run -0 --separate-stderr sif 'apptainer exec d.sif cat /etc/debian_version; apptainer run d.sif echo run'
  expect_equal "${lines[1]}" run
  run -0 --separate-stderr sif 'apptainer inspect --deffile d.sif'
  expect_output_like "^bootstrap: docker"
  # The scripts of the file, by a shell that knows no Apptainer.
  run -0 --separate-stderr sif 'unset SINGULARITY_BIND
    berth run ./d.sif /.singularity.d/actions/exec sh -c "echo \$PATH"; berth run ./d.sif /.run echo through'
  expect_output_like '^/usr'
  expect_equal "${lines[1]}" through
  run -0 alice srun -w n1 --container-image="$(in_home pwd)/sif/d.sif" cat /.singularity.d/Singularity
  expect_output_like '^bootstrap: docker'
}

@test "sif: a directory, a squashfs file and a SIF file become SIF files" {
  run -0 sif "rm -rf dir; berth import --quiet -o s.sqsh $image > /dev/null
    unsquashfs -d dir -no-xattrs s.sqsh > /dev/null
    echo mine > dir/etc/mine; chmod 0000 dir/etc/mine
    apptainer --quiet build from_dir.sif dir; apptainer --quiet build from_sqsh.sif s.sqsh
    apptainer --quiet build from_sif.sif d.sif
    for one in dir sqsh; do python3 $reader check from_\$one.sif; done; cmp d.sif from_sif.sif && echo same"
  expect_equal "$output" $'good\ngood\nsame'
  run -0 --separate-stderr sif 'apptainer exec --fakeroot from_dir.sif cat /etc/mine
    apptainer exec from_sqsh.sif sh -c "ls -d /.singularity.d /etc/rc"; apptainer sif dump 1 from_dir.sif'
  expect_equal "${lines[0]}" mine
  expect_output_like 'bootstrap: localimage'
  run -0 sif 'chmod -R u+rwX dir; rm -rf dir from_*.sif s.sqsh'
}

@test "sif: a container is saved as one" {
  run -0 alice srun -w n1 --container-image="$image" --container-save="$(in_home pwd)/sif/saved.sif" \
    --container-writable sh -c 'echo kept > /opt/kept'
  reads 'check saved.sif'
  expect_equal "$output" good
  run -0 --separate-stderr sif 'apptainer exec saved.sif cat /opt/kept'
  expect_equal "$output" kept
  run -0 sif 'rm saved.sif'
}

@test "sif: list, header, info and dump" {
  run -0 --separate-stderr sif 'apptainer sif list d.sif'
  expect_output_like '4    \|1       \|NONE    \|[0-9]+-[0-9]+ +\|FS \(Squashfs/\*System/(amd64|arm64)\)'
  run -0 --separate-stderr sif 'singularity sif header d.sif'
  expect_output_like '^Launch Script: +#!/usr/bin/env run-singularity'
  expect_output_like 'Descriptors Free: +44'
  run -0 --separate-stderr sif 'apptainer sif info 2 d.sif; apptainer sif dump 1 d.sif'
  expect_output_like '  Name: +inspect-metadata.json'
  expect_output_like 'bootstrap: docker'
  run -255 sif 'apptainer sif dump 9 d.sif'
  expect_output_like 'FATAL: .*d.sif has no object 9'
  run -255 sif 'apptainer sif list /etc/passwd'
  expect_output_like 'FATAL: .*is no SIF file'
  run -255 sif 'apptainer sif del 1 d.sif'
  expect_output_like 'SIF files are not changed'
}

@test "verify: a signed file, by a key of the keyring and by no other" {
  run -255 sif 'apptainer verify signed.sif'
  expect_output_like 'FATAL:   Failed to verify container: .*signature 5'
  run -0 sif 'apptainer key import a.asc; apptainer key list'
  expect_output_like 'User: +A Signer <a@example.org>'
  run -0 --separate-stderr sif 'singularity verify signed.sif'
  expect_output_like 'Signing entity: A Signer <a@example.org>'
  expect_equal "$(grep -c '^[1-4]   |1 ' <<< "$output")" 4
  run -0 sif 'apptainer verify --all --local --group-id 1 signed.sif; apptainer verify -i 4 signed.sif'
  expect_output_like "INFO:    Verified signature\(s\) from image 'signed.sif'"
  run -0 --separate-stderr sif \
    'apptainer verify --json signed.sif | jq -r ".Signatures, .SignerKeys[3].Signer.Partition"'
  expect_equal "$output" $'1\nFS'
  run -255 sif 'apptainer verify d.sif'
  expect_output_like 'signature not found for group 1'
  run -255 sif 'apptainer verify --certificate x.pem signed.sif'
  expect_output_like 'certificates and servers of keys are not used'
  run -0 sif 'gpg --homedir gpg --with-colons --list-keys a@example.org | grep -m 1 ^fpr | cut -d: -f 10 > key
    apptainer key remove "$(cat key)"'
  run -255 sif 'apptainer verify signed.sif'
}

@test "verify: a byte that was changed, in each object, in a descriptor and in the header" {
  sif 'apptainer --quiet key import a.asc'
  run -0 sif "python3 $reader list signed.sif"
  local at places=(60 4100)
  for line in "${lines[@]:0:4}"; do read -r _ _ _ _ at _ <<< "$line"; places+=($((at + 3))); done
  for at in "${places[@]}"; do
    sif "cp signed.sif bad.sif; printf '\\377' | dd of=bad.sif bs=1 seek=$at conv=notrunc status=none"
    run -255 sif 'apptainer verify bad.sif'
    expect_output_like 'FATAL: '
    [[ $output != *Verified* ]] || fail "byte $at: $output"
  done
  run -0 sif 'apptainer verify signed.sif; rm bad.sif'
}

@test "verify: two signatures have both to be good, and the older form is named" {
  sif "cp signed.sif two.sif; python3 $reader sign two.sif gpg b@example.org; apptainer --quiet key import a.asc"
  run -255 sif 'apptainer verify two.sif'
  expect_output_like 'signature 6'
  sif 'gpg --homedir gpg --export b@example.org > b.gpg; apptainer --quiet key import b.gpg'
  run -0 sif 'apptainer verify two.sif'
  expect_equal "$(grep -c 'Signing entity' <<< "$output")" 2
  sif "cp d.sif older.sif; python3 $reader sign older.sif gpg a@example.org --legacy"
  run -255 sif 'apptainer verify older.sif'
  expect_output_like 'older form'
  run -0 sif 'apptainer verify --legacy-insecure older.sif; rm two.sif older.sif'
}

@test "verify: signatures by a key in a file, and neither form counts for the other" {
  run -0 --separate-stderr sif "openssl genpkey -algorithm ED25519 -out own.pem
    openssl pkey -in own.pem -pubout -out k.pem
    openssl genpkey -algorithm ED25519 | openssl pkey -pubout -out other.pem
    cp d.sif sealed.sif; python3 $reader envelope sealed.sif own.pem
    apptainer verify --key k.pem sealed.sif; APPTAINER_VERIFY_KEY=k.pem singularity --quiet verify --json sealed.sif |
      jq .Signatures"
  expect_equal "${lines[0]}" 'Objects verified:'
  expect_equal "${lines[-1]}" 1
  run -255 sif 'apptainer verify --key other.pem sealed.sif'
  expect_output_like 'signature 5: it is by another key'
  run -255 sif 'apptainer verify sealed.sif'
  expect_output_like 'signature 5: not of PGP; apptainer verify --key FILE.pem checks one by another key'
  run -255 sif 'apptainer verify --key k.pem signed.sif'
  expect_output_like 'signature 5: of PGP; apptainer verify without --key checks it'
  at=$(sif "python3 $reader list sealed.sif" | awk '$2 == "FS" { print $5 + 5000 }')
  run -255 sif "printf '\377' | dd of=sealed.sif bs=1 seek=$at conv=notrunc status=none
    apptainer verify --key k.pem sealed.sif"
  expect_output_like 'signature 5: object 4 was changed'
  sif 'rm sealed.sif own.pem k.pem other.pem'
}

@test "key: the keys of all users are root's to add and remove" {
  run -0 root bash -c 'apptainer key import --global ~alice/sif/a.asc'
  run -0 --separate-stderr sif 'apptainer key list --global | grep -c a@example.org
    apptainer --quiet verify signed.sif > out; grep -c a@example.org out; rm out
    apptainer key list | grep -c a@example.org || true'
  expect_equal "$output" $'1\n1\n0'
  run -255 sif 'apptainer key import --global a.asc'
  expect_output_like '/etc/apptainer/global-pgp-public'
  run -0 root bash -c 'cd ~alice/sif; key=$(gpg --homedir gpg --with-colons --show-keys a.asc | grep -m 1 ^fpr |
    cut -d: -f 10); apptainer key remove --global "$key"'
  run -255 sif 'apptainer verify signed.sif'
}

@test "key: what is no key is refused, and the keyring stays as it was" {
  sif 'apptainer --quiet key import a.asc; cp keys/pgp-public before'
  run -255 sif 'echo nothing > n.asc; apptainer key import n.asc'
  expect_output_like 'FATAL: '
  run -255 sif 'apptainer key remove 0000000000000000000000000000000000000000'
  expect_output_like 'it is not in the keyring'
  run -255 sif 'apptainer key newpair'
  expect_output_like 'write list, import or remove'
  run -0 sif 'cmp before keys/pgp-public'
}
