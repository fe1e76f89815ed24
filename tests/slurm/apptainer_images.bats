#!/usr/bin/env bats
# What apptainer finds of images: SIF files of registries (oras://), apps of SCIF (--app), name servers (--dns).
# shellcheck disable=SC2016,SC2154
load helper

setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  # shellcheck disable=SC2030
  export sif=$registry/sif
  in_home 'rm -rf sifs; mkdir sifs; cd sifs; berth import --quiet --force --plain -o d.sqsh '"$image"'
    unsquashfs -d tree -no-xattrs d.sqsh > /dev/null 2>&1 || test -d tree/bin
    mkdir -p tree/.singularity.d/env tree/scif/apps/tool/bin tree/scif/apps/tool/lib tree/scif/apps/tool/scif/env \
      tree/scif/apps/bare tree/scif/data/tool
    echo "export OF_IMAGE=\"image\"" > tree/.singularity.d/env/90-environment.sh
    echo "export SCIF_APPROOT_tool=/scif/apps/tool" > tree/.singularity.d/env/94-appsbase.sh
    printf "#!/bin/sh\necho image runs\n" > tree/.singularity.d/runscript
    printf "#!/bin/sh\necho tool runs \$OF_APP \$*\n" > tree/scif/apps/tool/scif/runscript
    printf "#!/bin/sh\necho tool tests \$*\n" > tree/scif/apps/tool/scif/test
    printf "#!/bin/sh\necho helped\n" > tree/scif/apps/tool/bin/helper
    echo "export OF_APP=\"\$OF_IMAGE-\$SCIF_APPNAME\"" > tree/scif/apps/tool/scif/env/90-environment.sh
    chmod +x tree/.singularity.d/runscript tree/scif/apps/tool/scif/runscript tree/scif/apps/tool/scif/test \
      tree/scif/apps/tool/bin/helper
    mksquashfs tree apps.sqsh -noappend -quiet -no-progress -all-root > /dev/null
    chmod -R u+w tree; rm -rf tree' > "$BATS_FILE_TMPDIR/made" 2>&1
  python3 "$repo/tests/slurm/sif_registry.py" make "$state/home/alice/sifs/apps.sqsh" "$BATS_FILE_TMPDIR/apps.sif"
  install -m 644 "$BATS_FILE_TMPDIR/apps.sif" "$state/home/alice/sifs/apps.sif"
  python3 "$repo/tests/slurm/sif_registry.py" push "$BATS_FILE_TMPDIR/apps.sif" "$sif/apps:1" \
    > "$BATS_FILE_TMPDIR/digest"
}

teardown() {
  restore_site
}

teardown_file() {
  in_home 'rm -rf sifs' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

sifs() { in_home "cd sifs; $1"; }

# prints EXPECTED COMMAND: standard output, exactly.
prints() {
  run -0 --separate-stderr sifs "$2"
  expect_equal "$output" "$1"
}

# fails TEXT COMMAND: one line FATAL with TEXT, and 255.
fails() {
  run -255 sifs "$2"
  expect_equal "$(grep -c '^FATAL:   ' <<< "$output")" 1
  expect_output_like "$1"
}

@test "pull oras://: the SIF file, byte for byte, under the name that is asked for" {
  run -0 --separate-stderr sifs "apptainer --quiet pull oras://$sif/apps:1 && cmp apps_1.sif apps.sif; rm apps_1.sif"
  expect_equal "$output" ""
  sifs "singularity --quiet pull --name x.sif oras://$sif/apps@$(< "$BATS_FILE_TMPDIR/digest"); cmp x.sif apps.sif"
  run -255 sifs "apptainer pull --name x.sif oras://$sif/apps:1"
  expect_output_like 'Image file already exists'
  sifs "apptainer --quiet pull --force --name x.sif oras://$sif/apps:1; cmp x.sif apps.sif; rm x.sif"
}

@test "exec and run oras://: as the SIF file itself, which is fetched once" {
  mark_log
  prints image "apptainer --silent exec oras://$sif/apps:1 sh -c 'echo \$OF_IMAGE'"
  prints 'image runs' "singularity --silent run oras://$sif/apps:1"
  prints image "apptainer --silent exec oras://$sif/apps@$(< "$BATS_FILE_TMPDIR/digest") sh -c 'echo \$OF_IMAGE'"
  expect_equal "$(count_since GET '/v2/sif/apps/blobs/')" 1
  prints "oras://$sif/apps:1 apps:1" \
    "apptainer --silent exec oras://$sif/apps:1 sh -c 'echo \$APPTAINER_CONTAINER \$APPTAINER_NAME'"
  run -0 sifs "apptainer inspect --runscript oras://$sif/apps:1"
  expect_output_like 'echo image runs'
  # Looking after the store knows of it, and what the tag meant stays as long as the file.
  run -0 sifs 'berth verify; berth gc --age 30'
  expect_output_like ' 0 problems'
  prints image "BERTH_STORE_PULL=never apptainer --silent exec oras://$sif/apps:1 sh -c 'echo \$OF_IMAGE'"
}

@test "exec oras:// in a step: the tasks of a node share the container, each node fetches the file" {
  run -0 --separate-stderr sifs "srun -N2 --ntasks-per-node=2 -O apptainer --silent exec oras://$sif/apps:1 \
    sh -c 'echo \$OF_IMAGE'"
  expect_equal "$output" $'image\nimage\nimage\nimage'
}

# The artifact at NAME:TAG, which is checked by hand; the SIF file that it has goes to a file: artifact NAME:TAG FILE.
artifact() { python3 "$repo/tests/slurm/sif_registry.py" read "$2" "$sif/$1"; }

@test "push oras://: the artifact that Apptainer writes, the same each time, and the file comes back as it was" {
  run -0 --separate-stderr sifs "apptainer push apps.sif oras://$sif/pushed:1"
  expect_equal "$output" ""
  [[ $stderr =~ 'INFO:    Digest: '(sha256:[0-9a-f]{64})$'\nINFO:    Upload complete' ]]
  digest=${BASH_REMATCH[1]}
  run -0 artifact pushed:1 "$BATS_TEST_TMPDIR/file"
  expect_equal "$output" "$digest apps.sif {'org.opencontainers.image.created': '1970-01-01T00:00:00Z'}"
  cmp "$BATS_TEST_TMPDIR/file" "$state/home/alice/sifs/apps.sif"
  sifs "apptainer -q pull back.sif oras://$sif/pushed:1; cmp back.sif apps.sif; rm back.sif"
  mark_log
  run -0 sifs "singularity push -U apps.sif oras://$sif/pushed:1"
  expect_output_like "$digest"
  expect_equal "$(count_since PUT '/v2/sif/pushed/blobs/')" 0
  # What Berth has written itself says when its image was made.
  sifs "apptainer -q pull --name d.sif docker://$image; apptainer -q push -D 'what it is' --annotation b=y \
    --annotation a=x --annotation none d.sif oras://$sif/pushed:2; rm d.sif" 2> "$BATS_TEST_TMPDIR/errors"
  grep -q 'WARNING: Value missing for "none", not setting' "$BATS_TEST_TMPDIR/errors"
  run -0 artifact pushed:2 "$BATS_TEST_TMPDIR/file"
  [[ $output =~ "d.sif {'a': 'x', 'b': 'y', 'org.opencontainers.image.created': '"[0-9T:-]+"Z', "\
"'org.opencontainers.image.description': 'what it is'}" ]]
}

@test "push: what is no SIF file, no destination, and a push that breaks off leaves no tag" {
  fails 'No such file' "apptainer push none.sif oras://$sif/bad:1"
  fails 'd.sqsh' "apptainer push d.sqsh oras://$sif/bad:1"
  fails 'sifs' "apptainer push ../sifs oras://$sif/bad:1"
  fails 'there is no library' 'apptainer push apps.sif library://a/b/c:1'
  fails 'Unsupported transport type: nothing' 'apptainer push apps.sif nothing://bar/foo:1'
  fails 'no image in layers' "apptainer push apps.sif docker://$sif/bad:1"
  fails 'is no URI' 'apptainer push apps.sif foo'
  fails 'registry login' "apptainer push --docker-username a --docker-password b apps.sif oras://$sif/bad:1"
  # Longer than what is in the pipe's way: the registry gets a part.
  in_home 'cd sifs; cp apps.sif big.sif; truncate -s 3G big.sif'
  mark_log
  alice bash -c "cd sifs; exec apptainer push big.sif oras://$sif/bad:1" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  has_begun() { log_since POST /v2/sif/bad/blobs/uploads/ | grep -q .; }
  wait_until 60 has_begun
  root pkill -u alice -f 'berth-pull sif-push'
  code=0
  wait "$!" || code=$?
  (( code != 0 ))
  in_home 'rm sifs/big.sif'
  run -0 curl -s -o /dev/null -w '%{http_code}' "http://${registry}/v2/sif/bad/manifests/1"
  expect_equal "$output" 404
}

@test "oras:// and docker:// do not mean each other's images" {
  fails 'an artifact of 3 parts.*for an image write docker://' "apptainer exec oras://$image true"
  fails "not a container image" "apptainer exec docker://$sif/apps:1 true"
  fails 'sif/nosuch:1: not found by the registry' "apptainer exec oras://$sif/nosuch:1 true"
  fails 'write oras://REGISTRY/NAME:TAG' 'apptainer exec oras:x true'
  prints yes "apptainer --silent exec docker://$image echo yes"
}

@test "policy: registries, image_paths and digest_required hold for oras://" {
  with_site_lines '[policy]' 'registries_denied = "'"$registry"'/sif"'
  fails 'policy.registries_denied' "apptainer exec oras://$sif/apps:1 true"
  restore_site
  with_site_lines '[policy]' 'image_paths = "/opt/images"'
  fails 'policy.image_paths' "apptainer exec oras://$sif/apps:1 true"
  restore_site
  with_site_lines '[policy]' 'digest_required = true'
  fails 'policy.digest_required' "apptainer exec oras://$sif/apps:1 true"
  prints image "apptainer --silent exec oras://$sif/apps@$(< "$BATS_FILE_TMPDIR/digest") sh -c 'echo \$OF_IMAGE'"
  restore_site
  root bash -c 'echo "{\"default\": [{\"type\": \"reject\"}]}" > /etc/berth/reject.json'
  with_site_lines '[policy]' 'signatures = "/etc/berth/reject.json"'
  fails 'reject' "apptainer exec oras://$sif/apps:1 true"
  root rm /etc/berth/reject.json
}

@test "--app: the environment of an app, its runscript and its tests" {
  prints 'tool runs image-tool a b' 'apptainer run --app tool apps.sif a b'
  prints 'tool tests x' 'apptainer test --app tool apps.sif x'
  prints helped 'apptainer exec --app tool apps.sif helper'
  prints 'tool runs image-tool' 'SINGULARITY_APP=tool singularity run apps.sif'
  prints '/scif/apps/tool /scif/data/tool /scif/apps/tool/scif tool tool' 'apptainer exec --app tool apps.sif \
    sh -c "echo \$SCIF_APPROOT \$SCIF_APPDATA \$SCIF_APPMETA \$SCIF_APPNAME \$APPTAINER_APPNAME"'
  prints '/scif/apps/tool/lib /scif/apps/tool /scif/data/tool/input' 'apptainer exec --app tool apps.sif \
    sh -c "echo \$LD_LIBRARY_PATH \$SCIF_APPROOT_tool \$SCIF_APPINPUT"'
  prints mine 'apptainer exec --app tool --env OF_APP=mine apps.sif sh -c "echo \$OF_APP"'
  prints 'image runs' 'apptainer run apps.sif'
  prints '' 'apptainer exec apps.sif sh -c "echo \$SCIF_APPNAME"'
  prints image-tool 'echo "echo \$OF_APP" | apptainer shell --app tool apps.sif'
}

@test "--app: what is not there is told in one line" {
  fails '--app nosuch: the image has no app of that name' 'apptainer exec --app nosuch apps.sif true'
  fails '--app bare: the image has no runscript of it' 'apptainer run --app bare apps.sif'
  fails '--app bare: the image has no test of it' 'apptainer test --app bare apps.sif'
  fails 'names of apps have letters' 'apptainer exec --app ../x apps.sif true'
}

@test "--dns: the container's name servers" {
  prints $'nameserver 192.0.2.1\nnameserver 2001:db8::1' \
    'apptainer exec --dns 192.0.2.1,2001:db8::1 apps.sif cat /etc/resolv.conf'
  prints 'nameserver 192.0.2.1' 'APPTAINER_DNS=192.0.2.1 apptainer exec --writable-tmpfs apps.sif cat /etc/resolv.conf'
  prints 'nameserver 192.0.2.1' 'apptainer exec --contain --dns 192.0.2.1 apps.sif cat /etc/resolv.conf'
  run -0 --separate-stderr sifs 'apptainer exec apps.sif cat /etc/resolv.conf'
  expect_equal "$output" "$(sifs 'cat /etc/resolv.conf')"
  fails 'write addresses' 'apptainer exec --dns one.example apps.sif true'
}
