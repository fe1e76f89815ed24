#!/usr/bin/env bats
# A site that wants .sif files signed (policy.signatures, transports.sif): by its keys, in steps and everywhere else,
# under whatever name, and the bytes that are served are those that were verified.
# shellcheck disable=SC2016,SC2154
load helper

folder=$state/sif-policy
reader=$BATS_TEST_DIRNAME/sif_file.py

setup_file() {
  for name in apptainer enroot; do root ln -sf berth "/usr/bin/$name"; done
  in_home 'rm -rf sif; mkdir -m 0700 sif; cd sif
    berth import --quiet --plain -o base.sqsh '"$image"' &&
    unsquashfs -d tree -no-xattrs base.sqsh > /dev/null &&
    mkdir -p tree/.singularity.d/env over/etc &&
    echo "export OF_IMAGE=\"image\"" > tree/.singularity.d/env/90-environment.sh &&
    head -c 3000000 /dev/urandom > tree/big && cp tree/big . && sha256sum < tree/big > big.sum &&
    echo over > over/etc/over && mksquashfs over over.sqsh -noappend -quiet -no-progress -all-root > /dev/null &&
    apptainer --quiet build d.sif tree && chmod -R u+w tree && rm -rf tree &&
    mkdir -m 0700 gpg && for who in site other; do
      gpg --homedir gpg --batch --quiet --passphrase "" --quick-generate-key $who@example.org ed25519 sign never
    done && gpg --homedir gpg --batch --quiet --armor --export site@example.org > site.asc &&
    gpg --homedir gpg --batch --quiet --armor --export other@example.org > other.asc &&
    sign() { python3 '"$reader"' sign "$1" gpg "$2@example.org"; } &&
    cp d.sif signed.sif && sign signed.sif site && cp d.sif foreign.sif && sign foreign.sif other &&
    cp foreign.sif both.sif && sign both.sif site &&
    cp d.sif over.sif && python3 '"$reader"' overlay over.sif over.sqsh 1 && sign over.sif site &&
    cp signed.sif added.sif && python3 '"$reader"' overlay added.sif over.sqsh 1 &&
    cp signed.sif apart.sif && python3 '"$reader"' overlay apart.sif over.sqsh 2' \
    > "$BATS_FILE_TMPDIR/made" 2>&1 || cat "$BATS_FILE_TMPDIR/made" >&2
  root bash -c "rm -rf $folder && mkdir -m 0755 $folder && install -m 0644 ~alice/sif/site.asc $folder/site.asc"
}

setup() {
  want '{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "'"$folder/site.asc"'"}'
  with_site_lines '[events]' "log = \"$folder/%u.jsonl\"" '[policy]' "signatures = \"$folder/policy.json\""
  root bash -c "install -m 0666 /dev/null $folder/alice.jsonl"
}

teardown() {
  restore_site
  cancel_after_failure
}

teardown_file() {
  in_home 'gpgconf --homedir sif/gpg --kill all; rm -rf sif' > /dev/null 2>&1 || true
  for name in apptainer enroot; do root rm -f "/usr/bin/$name"; done
}

# want REQUIREMENT: of .sif files, wherever they lie. Images of registries are accepted, other files are not.
want() {
  root tee "$folder/policy.json" > /dev/null <<END
{"default": [{"type": "reject"}], "transports": {"docker": {"": [{"type": "insecureAcceptAnything"}]},
 "sif": {"": [$1]}}}
END
}

# In alice's folder `sif`.
sif() { in_home "cd sif; $1"; }

# step FILE COMMAND: in a step, from the folder.
step() { sif "srun -w n1 --container-image=./$1 $2"; }

# refused REASON COMMAND
refused() {
  run sif "$2"
  expect_failure
  expect_output_like "policy.signatures: $folder/policy.json: .*$1"
  (( $(grep -c 'policy.json' <<< "$output") == 1 )) || fail "more than one line:" "$output"
}

unsigned='transports.sif."" wants all that is in the file signed by .*/site.asc: signature not found for group 1'

@test "sif policy: a signed file runs, in a step and by every command, and events say who signed it" {
  run -0 step signed.sif 'sh -c "sha256sum < /big; echo \$OF_IMAGE"'
  expect_equal "$output" "$(sif 'cat big.sum'; echo image)"
  wait_until 5 grep -q '"kind":"start"' "$folder/alice.jsonl"
  expect_equal "$(jq -r 'select(.kind=="start").rule' "$folder/alice.jsonl" | tail -n 1)" 'transports.sif.""'
  run -0 bash -c "jq -r 'select(.kind==\"start\").signer' $folder/alice.jsonl | tail -n 1"
  expect_output_like "^[0-9A-F]{40} \($folder/site.asc\)"
  run -0 --separate-stderr sif 'berth run ./signed.sif cat /etc/debian_version; enroot start signed.sif echo enroot
    apptainer --silent exec signed.sif echo exec; echo "echo shell" | apptainer --silent shell signed.sif
    apptainer --silent run signed.sif echo run'
  expect_output_like $'enroot\nexec\n(.*)shell\n(.*)run$'
  run -0 step both.sif 'echo both'
  run -0 step over.sif 'cat /etc/over'
  expect_equal "$output" over
  expect_nodes_up
}

@test "sif policy: a file without a signature is refused in one line, by every command" {
  refused "$unsigned" 'srun -w n1 --container-image=./d.sif true'
  expect_one_error_line
  for command in 'berth run ./d.sif true' 'enroot start d.sif true' 'apptainer exec d.sif true' \
    'apptainer run d.sif true' 'apptainer shell d.sif' 'srun -w n1 apptainer exec d.sif true' \
    'srun -w n1 --container-image=./d.sif --container-name=of-sif true' 'enroot create --name of-sif d.sif'; do
    refused "$unsigned" "$command"
  done
  expect_nodes_up
}

@test "sif policy: another name of the file is no other file" {
  sif 'ln -sf d.sif link.sif; ln -f d.sif hard.sqsh; cp d.sif copy.img; cp d.sif copy.sqsh; mkdir -p sub'
  for name in link.sif hard.sqsh copy.img copy.sqsh sub/../d.sif sub/../sub/../link.sif; do
    refused "$unsigned" "srun -w n1 --container-image=./$name true"
  done
  refused "$unsigned" 'exec 9< d.sif; berth run /proc/self/fd/9 true'
  refused "$unsigned" 'exec 9< d.sif; apptainer exec /dev/fd/9 true'
  run root unshare --mount --propagation private bash -c 'cd ~alice/sif && mount --bind d.sif signed.sif &&
    exec setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice berth run ./signed.sif true'
  expect_failure
  expect_output_like "$unsigned"
  # Nor is what was a SIF file once.
  offset=$(python3 "$reader" list "$state/home/alice/sif/d.sif" | awk '$2 == "FS" { print $5 }')
  sif "dd if=d.sif of=partition.sqsh bs=4096 iflag=skip_bytes skip=$offset status=none"
  refused 'default refuses such images' 'srun -w n1 --container-image=./partition.sqsh true'
  sif 'rm -rf link.sif hard.sqsh copy.* sub partition.sqsh'
}

@test "sif policy: only keys of the site count, and not those of the user's keyring" {
  sif 'mkdir -p keys; APPTAINER_KEYSDIR=$PWD/keys apptainer --quiet key import other.asc
    APPTAINER_KEYSDIR=$PWD/keys apptainer --quiet verify foreign.sif'
  refused 'signature 4 by key [0-9A-F]{40}: the signature cannot be checked .another key' \
    'export APPTAINER_KEYSDIR=$PWD/keys; apptainer exec foreign.sif true'
  refused 'signature 4 by key' 'srun -w n1 --container-image=./foreign.sif true'
  root bash -c "cat ~alice/sif/other.asc >> $folder/site.asc"
  run -0 step foreign.sif true
  root install -m 0644 "$state/home/alice/sif/site.asc" "$folder/site.asc"
  # What the store remembers of the file does not count under another policy.
  refused 'signature 4 by key' 'srun -w n1 --container-image=./foreign.sif true'
  want '{"type": "reject"}'
  refused 'reject' 'srun -w n1 --container-image=./signed.sif true'
}

@test "sif policy: overlay partitions that nobody has signed, in the group of the image and in another one" {
  refused 'signature 4: it covers 3 objects, and its group has 4' 'srun -w n1 --container-image=./added.sif true'
  refused 'signature not found for group 2' 'srun -w n1 --container-image=./apart.sif true'
}

@test "sif policy: each byte that a start reads is one that was signed" {
  reads=$(python3 "$reader" list "$state/home/alice/sif/over.sif")
  for at in $(awk '$2 != "Signature" { print $5 + int($6 / 2) }' <<< "$reads") 40 4096 $((4096 + 30)); do
    sif "cp over.sif bad.sif; printf '\\377' | dd of=bad.sif bs=1 seek=$at conv=notrunc status=none"
    run sif 'berth run ./bad.sif true'
    expect_failure
  done
  sif 'rm bad.sif'
}

# changed HOW: a step on a copy of the file, which reads a file of the image before HOW, in the shell, changes the copy,
# and another one afterwards. Prints what became of that.
changed() {
  sif "rm -f ready go; cp -f signed.sif copy.sif; exec 9<> copy.sif
    srun -w n1 --container-image=./copy.sif --container-mounts=\$PWD:/here sh -c 'cat /etc/debian_version > /here/ready
      for i in \$(seq 600); do test -e /here/go && break; sleep 0.1; done
      sha256sum < /big 2>&1' > out 2>&1 & 
    for i in \$(seq 600); do test -e ready && break; sleep 0.1; done
    $1
    touch go; wait; grep -v '^srun:\|^slurmstepd:' out; rm -f ready go"
}

# Where in the file /big lies: it is not compressible.
inside() {
  python3 - "$state/home/alice/sif" <<'END'
import sys
image = open(sys.argv[1] + "/signed.sif", "rb").read()
print(image.index(open(sys.argv[1] + "/big", "rb").read()[1000000:1000100]))
END
}

@test "sif policy: what is changed in the file while it runs is an error, never other content" {
  at=$(inside)
  run changed "printf other | dd of=copy.sif bs=1 seek=$at conv=notrunc status=none"
  expect_output_like 'sha256sum: .*(Input/output error|read error)'
  run changed "printf other | dd of=/dev/fd/9 bs=1 seek=$at conv=notrunc status=none"
  expect_output_like 'sha256sum: .*(Input/output error|read error)'
  # The time of the last write is put back.
  run changed "python3 -c 'import mmap, os; f = open(\"copy.sif\", \"r+b\"); s = os.fstat(f.fileno())
m = mmap.mmap(f.fileno(), 0); m[$at] ^= 1; m.flush(); os.utime(\"copy.sif\", ns=(s.st_atime_ns, s.st_mtime_ns))'"
  expect_output_like 'sha256sum: .*(Input/output error|read error)'
  run -0 changed 'cp d.sif other.sif; mv other.sif copy.sif'
  expect_equal "$output" "$(sif 'cat big.sum')"
  refused "$unsigned" 'srun -w n1 --container-image=./copy.sif true'
  # Header and descriptors are looked at once.
  run -0 changed 'dd if=/dev/zero of=copy.sif bs=32768 count=1 conv=notrunc status=none'
  expect_equal "$output" "$(sif 'cat big.sum')"
  sif 'rm copy.sif out'
  expect_nodes_up
}

# The record that the store has made last: /var/lib/berth has one once a step has run here, else it is the home's.
record() { in_home 'ls -t {~/.cache/berth,/var/lib/berth/$UID}/unpacked/*.verified 2> /dev/null | head -n 1'; }

@test "sif policy: a file that the store remembers is not read again, and what differs in it is an error all the same" {
  sif 'cp over.sif copy.sif; berth run ./copy.sif true'
  first=$(record)
  run -0 sif 'strace -f -e trace=execve -o trace berth run ./copy.sif sh -c "sha256sum < /big"
    grep -c berth-pull trace || true; rm trace'
  expect_equal "$output" "$(sif 'cat big.sum'; echo 0)"
  sif "printf other | dd of=copy.sif bs=1 seek=$(inside) conv=notrunc status=none"
  run sif 'berth run ./copy.sif true'
  expect_failure
  expect_output_like 'signature 5: object 3 was changed'
  # A file of other content of which all times and numbers are those of the one that was verified.
  sif 'cat signed.sif > copy.sif; berth run ./copy.sif true'
  second=$(record)
  [[ $first != "$second" ]]
  in_home "mv $first $second"
  run sif 'berth run ./copy.sif true'
  expect_failure
  expect_output_like 'copy.sif: it was changed since its signatures were verified'
  sif 'rm copy.sif'
}

@test "sif policy: oras:// is a file of the store, which has to be signed" {
  for name in d signed; do
    python3 "$repo/tests/slurm/sif_registry.py" push "$state/home/alice/sif/$name.sif" "$registry/policy/$name:1" \
      > /dev/null
  done
  refused "$unsigned" "apptainer exec oras://$registry/policy/d:1 true"
  refused "$unsigned" "srun -w n1 apptainer exec oras://$registry/policy/d:1 true"
  run -0 --separate-stderr sif "apptainer --silent exec oras://$registry/policy/signed:1 sh -c 'echo \$OF_IMAGE'"
  expect_equal "$output" image
}

@test "sif policy: a file in a folder that all users share is judged as any other" {
  root bash -c "mkdir -p -m 0755 $folder/shared && install -m 0644 ~alice/sif/{d,signed}.sif $folder/shared"
  refused "$unsigned" "srun -w n1 --container-image=$folder/shared/d.sif true"
  run -0 sif "srun -w n1 --container-image=$folder/shared/signed.sif true"
}

@test "sif policy: what is saved or imported is a new file without a signature" {
  run -0 sif 'srun -w n1 --container-image=./signed.sif --container-writable --container-save=$PWD/saved.sif true'
  refused "$unsigned" 'srun -w n1 --container-image=./saved.sif true'
  sif 'srun -w n1 --container-image=./signed.sif --container-writable --container-save=$PWD/saved.sqsh true
    berth import --quiet -o imported.sqsh ./d.sif; apptainer --quiet build built.sif d.sif
    berth import --quiet -o imported.sif ./d.sif'
  refused 'default refuses such images' 'srun -w n1 --container-image=./saved.sqsh true'
  refused 'default refuses such images' 'srun -w n1 --container-image=./imported.sqsh true'
  for name in built imported; do refused "$unsigned" "srun -w n1 --container-image=./$name.sif true"; done
  # A copy that is the file itself is as good as that.
  run -0 sif 'apptainer --quiet build again.sif signed.sif; berth run ./again.sif true'
  sif 'rm -f saved.* imported.* built.sif again.sif'
}

@test "sif policy: containers that were made before it do not start again" {
  restore_site
  sif 'srun -w n1 --container-image=./d.sif --container-name=older true
    srun -w n1 --container-image=./signed.sif --container-name=newer true'
  setup
  refused "$unsigned" 'srun -w n1 --container-name=older true'
  run -0 sif 'srun -w n1 --container-name=newer sh -c "sha256sum < /big"'
  expect_equal "$output" "$(sif 'cat big.sum')"
  restore_site
  sif 'srun -w n1 berth rm older newer' > /dev/null 2>&1 || true
}

@test "sif policy: processes that share a container are each judged" {
  run sif 'srun -w n1 -n1 sh -c "apptainer --silent exec signed.sif sleep 20 & sleep 2
    apptainer exec d.sif true; code=\$?; apptainer --silent exec signed.sif echo joined; kill %1; exit \$code"'
  expect_failure
  expect_output_like 'signature not found for group 1'
  expect_output_like joined
}

@test "sif policy: what is unpacked is what was verified" {
  run -0 --separate-stderr sif 'BERTH_MOUNT_ENGINE=unpack berth run ./signed.sif sh -c "sha256sum < /big"'
  expect_equal "$output" "$(sif 'cat big.sum')"
  # The word of releases before stands for it, which is said.
  run -0 --separate-stderr sif 'BERTH_MOUNT_ENGINE=squashfuse berth run ./signed.sif sh -c "sha256sum < /big"'
  expect_equal "$output" "$(sif 'cat big.sum')"
  [[ $stderr == *'mount.engine = "squashfuse" is no more, and the image is unpacked instead; write "unpack"'* ]]
}

@test "sif policy: squashfs files that are mounted are data, of which policy.mount_sources decides" {
  mount="--container-mounts=./d.sif:/data:squashfs"
  for command in "srun -w n1 --container-image=$image $mount" \
    "apptainer --silent exec --bind d.sif:/data:image-src=/ signed.sif"; do
    run -0 --separate-stderr sif "$command cat /data/.singularity.d/env/90-environment.sh"
    expect_equal "$output" 'export OF_IMAGE="image"'
  done
  with_site_lines "mount_sources = \"$folder\""
  run sif "srun -w n1 --container-image=$image $mount true"
  expect_failure
  expect_output_like policy.mount_sources
}
