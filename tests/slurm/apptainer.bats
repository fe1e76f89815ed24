#!/usr/bin/env bats
# The commands `apptainer` and `singularity`, as scripts and workflow engines call them; the cases are those of
# Apptainer's end-to-end tests (actions, env, binds, overlay), in words of our own.
# shellcheck disable=SC2016,SC2154
load helper

# The names are links, as the package berth-apptainer has them.
setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  in_home 'rm -rf app; mkdir -p app/data app/w; cd app; echo there > data/x
    berth import --quiet --force --plain -o d.sqsh '"$image"'
    apptainer --quiet pull --name d.sif docker://'"$image" > "$BATS_FILE_TMPDIR/pull" 2>&1 || true
}

teardown() {
  restore_site
}

teardown_file() {
  in_home 'rm -rf app' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

# In alice's folder `app`, where d.sif is the image.
app() { in_home "cd app; $1"; }

# app_prints EXPECTED COMMAND: standard output, exactly.
app_prints() {
  run -0 --separate-stderr app "$2"
  expect_equal "$output" "$1"
}

# app_fails TEXT COMMAND: one line FATAL with TEXT, and 255.
app_fails() {
  run -255 app "$2"
  expect_equal "$(grep -c '^FATAL:   ' <<< "$output")" 1
  expect_output_like "$1"
}

@test "version: engines find a number behind 'apptainer version'" {
  run -0 app 'apptainer --version; singularity --version; apptainer version'
  [[ ${lines[0]} =~ ^apptainer\ version\ 1\.[0-9]+\.[0-9]+ ]] || fail "$output"
  expect_equal "${lines[1]}" "${lines[0]}"
  [[ ${lines[2]} =~ ^1\.[0-9]+\.[0-9]+ ]] || fail "$output"
}

@test "pull: a file of the name that is asked for, and none is replaced without --force" {
  app 'test -s d.sif'
  app_fails 'Image file already exists: "d.sif"' "apptainer pull --name d.sif docker://$image"
  run -0 --separate-stderr app "singularity --quiet pull --force --dir w docker://$image; ls w"
  expect_equal "$output" debian_12.sif
  # In Apptainer's form, whatever is said.
  run -0 --separate-stderr app "apptainer pull -F --dir w docker://$image"
  expect_equal "$output" ""
  [[ $stderr != *berth:* ]] || fail "$stderr"
  app_fails 'image .*no-such:1: not found' "apptainer pull docker://${image%:*}/no-such:1"
  app_fails 'library://a/b: images of a library are not fetched' 'apptainer pull library://a/b'
  app_fails 'shub://a/b' 'singularity pull shub://a/b'
}

@test "exec: the command's output, its exit code, and its words as they are" {
  app_prints hello 'apptainer exec d.sif echo hello'
  app_prints '--help -e a b' "apptainer exec d.sif echo --help -e 'a b'"
  run -42 app "singularity exec d.sif sh -c 'exit 42'"
  run -0 app 'apptainer exec d.sif true'
  run -1 app 'apptainer exec d.sif false'
  app_fails nosuch 'apptainer exec d.sif /nosuch'
  # cwltool looks for these words.
  app_fails 'nosuch: .*executable file not found in ' 'apptainer exec d.sif nosuch'
  app_fails 'no-such.sif' 'apptainer exec no-such.sif true'
  run -1 app 'apptainer exec d.sif'
  expect_output_like '^FATAL:   .*the command is missing'
  app_prints in 'echo in | apptainer exec d.sif cat'
}

@test "exec: images of other spellings" {
  app_prints yes "apptainer --silent exec docker://$image echo yes"
  app_prints yes "cp d.sif plain.sqsh; apptainer exec ./plain.sqsh echo yes; rm plain.sqsh"
  app_prints yes 'apptainer exec $PWD/d.sif echo yes'
  app_fails 'oras://' 'apptainer exec oras:h/a:1 true'
  app_fails 'no instance found with name i' 'apptainer exec instance://i true'
}

@test "exec: files have the image's modes, and not those that Enroot would give them" {
  app 'mkdir -p modes/usr; touch modes/usr/f; chmod 4111 modes/usr/f; chmod 555 modes/usr
    mksquashfs modes modes.sqsh -quiet -no-progress > /dev/null; chmod 755 modes/usr; rm -r modes'
  app_prints '555 4111' 'apptainer exec --bind /usr/bin:/bin,/lib:/lib,/lib64:/lib64 modes.sqsh \
    /bin/stat -c %a /usr /usr/f | paste -sd" "'
  app 'rm modes.sqsh'
}

@test "run and shell: the image's command, arguments in its place, a shell without words of its own" {
  app_prints out 'echo "echo out" | apptainer shell d.sif'
  app_prints out 'echo "echo out" | singularity shell --shell /bin/sh d.sif'
  app_prints given 'apptainer run d.sif echo given'
  run -0 --separate-stderr app 'echo "echo \$0" | apptainer shell d.sif more'
  expect_equal "$output" /bin/bash
  [[ $stderr == *'WARNING: Parameters to shell command are ignored'* ]] || fail "$stderr"
}

@test "root cannot be written to, unless --writable-tmpfs or --overlay says so" {
  run ! app 'apptainer exec d.sif touch /new'
  expect_output_like 'Read-only file system'
  app_prints '' 'apptainer exec --writable-tmpfs d.sif touch /new'
  run ! app 'apptainer exec d.sif ls /new'
  app_prints kept 'mkdir -p o; apptainer exec --overlay o d.sif sh -c "echo kept > /new"
    apptainer exec --overlay o d.sif cat /new; rm -rf o'
  app_fails 'd.sif over the image .*it is a SIF file' 'apptainer exec --overlay d.sif d.sif true'
  app_fails 'is no directory' 'apptainer exec --writable d.sif true'
}

@test "a directory is run as it lies, and written to with --writable" {
  app 'unsquashfs -d box -no-xattrs d.sqsh > /dev/null 2>&1 || test -d box/bin'
  app_prints yes 'apptainer exec box echo yes'
  run ! app 'apptainer exec box touch /new'
  app_prints new 'apptainer exec --writable box sh -c "echo new > /new"; cat box/new'
  app 'chmod -R u+w box; rm -rf box'
}

@test "home, working directory and /tmp are the node's" {
  app_prints $'/home/alice/app\nthere' 'apptainer exec d.sif sh -c "pwd; cat data/x"'
  app_prints /home/alice 'apptainer exec d.sif sh -c "echo \$HOME"'
  app_prints mine 'echo mine > /tmp/app-test; apptainer exec d.sif cat /tmp/app-test; rm /tmp/app-test'
  app_prints /usr 'd=$PWD; cd /usr; apptainer exec $d/d.sif pwd'
  app_prints /srv 'apptainer exec --pwd /srv d.sif pwd'
  app_prints /srv 'apptainer exec --cwd /srv d.sif pwd'
  app_prints /srv 'APPTAINER_PWD=/srv apptainer exec d.sif pwd'
  app_fails '/no-such' 'apptainer exec --pwd /no-such d.sif pwd'
}

@test "--no-home, --home, --contain and --workdir" {
  run ! app 'cd /usr; apptainer exec --no-home ~/app/d.sif ls /home/alice/app'
  app_prints there 'apptainer exec --no-home d.sif cat data/x'
  app_prints $'/home/guest\nthere' 'apptainer exec --home $PWD/data:/home/guest d.sif sh -c "echo \$HOME; cat ~/x"'
  app_prints '/home/guest' 'apptainer exec --home data:/home/guest d.sif sh -c "getent passwd alice | cut -d: -f6"'
  app_prints $'/home/alice\n0' 'apptainer exec --contain d.sif sh -c "pwd; ls | wc -l"'
  app_prints 750 'apptainer exec --contain d.sif stat -c %a .'
  run ! app 'echo x > /tmp/app-hidden; apptainer exec -c d.sif cat /tmp/app-hidden'
  app 'rm -f /tmp/app-hidden'
  app_prints kept 'apptainer exec -c --workdir w d.sif sh -c "echo kept > /tmp/f"; cat w/tmp/f'
  app_prints kept 'apptainer exec -c -W w d.sif sh -c "echo kept > ~/f"; cat w/home/f'
  app_prints '' 'apptainer exec --scratch /scr d.sif sh -c "touch /scr/x; rm /scr/x"'
  app_prints there 'apptainer exec -c --pwd /data --bind data:/data d.sif cat x'
}

@test "--bind in each form, --mount, and their variables" {
  app_prints there 'apptainer exec --bind data:/mnt/new d.sif cat /mnt/new/x'
  app_prints there 'apptainer exec -B $PWD/data:/mnt:ro d.sif cat /mnt/x'
  run ! app 'apptainer exec -B $PWD/data:/mnt:ro d.sif touch /mnt/y'
  app_prints $'there\nthere' 'apptainer exec -B data:/a,data/x:/b/file:ro d.sif cat /a/x /b/file'
  app_prints there 'SINGULARITY_BIND=data:/a apptainer exec d.sif cat /a/x'
  app_prints there 'APPTAINER_BINDPATH=data:/a singularity exec d.sif cat /a/x'
  app_prints $'there\nthere' 'APPTAINER_BIND=data:/a apptainer exec -B data:/b d.sif cat /a/x /b/x'
  app_prints there 'apptainer exec --mount type=bind,source=data,destination=/a d.sif cat /a/x'
  run ! app 'apptainer exec --mount type=bind,src=data,dst=/a,ro d.sif touch /a/y'
  app_prints /a,/b 'apptainer exec -B data:/a,data:/b d.sif sh -c "echo \$APPTAINER_BIND"'
  app_fails 'is no option' 'apptainer exec -B data:/a:bad d.sif true'
  app_fails 'no-such' 'apptainer exec -B /no-such:/a d.sif true'
  app_fails 'type tmpfs is not mounted' 'apptainer exec --mount type=tmpfs,destination=/a d.sif true'
}

@test "variables of the node get in, but for those that the image sets" {
  app_prints bar 'FOO=bar apptainer exec d.sif sh -c "echo \$FOO"'
  app_prints $'Hello\nWorld' "MULTI=\$'Hello\nWorld' apptainer exec d.sif sh -c 'echo \"\$MULTI\"'"
  app_prints foo 'FOO=bar apptainer exec --env FOO=foo d.sif sh -c "echo \$FOO"'
  app_prints 1-2 'apptainer exec --env A=1,B=2 d.sif sh -c "echo \$A-\$B"'
  app_prints 3 'APPTAINERENV_A=2 apptainer exec --env A=3 d.sif sh -c "echo \$A"'
  app_prints 2-3 'APPTAINERENV_A=2 SINGULARITYENV_A=1 SINGULARITYENV_B=3 apptainer exec d.sif sh -c "echo \$A-\$B"'
  app_prints '' 'FOO=bar apptainer exec --no-env FOO d.sif sh -c "echo \$FOO"'
  app_prints '' 'FOO=bar BAR=foo APPTAINER_NOENV=FOO,BAR apptainer exec d.sif sh -c "echo \$FOO\$BAR"'
  app_prints Bar 'FOO=bar APPTAINERENV_FOO=Bar apptainer exec --no-env FOO d.sif sh -c "echo \$FOO"'
  app_prints '/foo' 'PATH=/nowhere:$PATH apptainer exec --env PATH=/foo d.sif /bin/sh -c "echo \$PATH"'
  app_prints C.UTF-8 'LANG=C.UTF-8 apptainer exec d.sif sh -c "echo \$LANG"'
}

@test "PREPEND_PATH, APPEND_PATH and PATH are about the container's path" {
  run -0 --separate-stderr app 'PATH=/nowhere:$PATH apptainer exec d.sif sh -c "echo \$PATH"'
  local path=$output
  [[ $path != *nowhere* ]] || fail "$path"
  app_prints "$path:/foo" 'APPTAINERENV_APPEND_PATH=/foo apptainer exec d.sif sh -c "echo \$PATH"'
  app_prints "/foo:$path" 'SINGULARITYENV_PREPEND_PATH=/foo apptainer exec d.sif sh -c "echo \$PATH"'
  app_prints "/usr/bin:/bin," 'APPTAINERENV_PATH=/usr/bin:/bin, apptainer exec d.sif sh -c "echo \$PATH"'
  app_prints "/foo:$path" "apptainer exec --env 'PATH=/foo:\$PATH' d.sif sh -c 'echo \$PATH'"
  app_prints "$path:/foo" 'apptainer exec --env APPEND_PATH=/foo d.sif sh -c "echo \$PATH"'
}

@test "--cleanenv and --containall leave the node's variables out" {
  app_prints '' 'FOO=bar apptainer exec --cleanenv d.sif sh -c "echo \$FOO"'
  app_prints C 'LANG=de_DE apptainer exec -e d.sif sh -c "echo \$LANG"'
  app_prints set 'APPTAINERENV_FOO=set apptainer exec -e d.sif sh -c "echo \$FOO"'
  app_prints '' 'FOO=bar apptainer exec --containall --no-pid d.sif sh -c "echo \$FOO"'
  app_prints http 'http_proxy=http apptainer exec -e d.sif sh -c "echo \$http_proxy"'
}

@test "--env-file sets what stands in its lines, and refuses what a shell would have to read" {
  app_prints '1-two words' "printf '# c\nA=1\nexport B=\"two words\"\n' > e
    apptainer exec --env-file e d.sif sh -c 'echo \$A-\$B'"
  app_prints 2 'apptainer exec --env-file e --env A=2 d.sif sh -c "echo \$A"'
  app_fails 'line 1 is not NAME=VALUE' "echo 'A=\$(date)' > e; apptainer exec --env-file e d.sif true"
}

@test "the container knows its image, its command and its binds" {
  app_prints '/home/alice/app/d.sif d.sif exec' \
    'apptainer exec d.sif sh -c "echo \$APPTAINER_CONTAINER \$APPTAINER_NAME \$APPTAINER_COMMAND"'
  app_prints '/home/alice/app/d.sif d.sif' \
    'apptainer exec d.sif sh -c "echo \$SINGULARITY_CONTAINER \$SINGULARITY_NAME"'
  app_prints 'Apptainer> ' 'apptainer exec d.sif sh -c "echo \"\$PS1\""'
  app_prints '' 'APPTAINER_BIND= SINGULARITY_X=1 apptainer exec d.sif sh -c "echo \$SINGULARITY_X"'
}

@test "--fakeroot, --pid, --ipc, --net, --uts and --hostname" {
  app_prints 0 'apptainer exec --fakeroot d.sif id -u'
  app_prints /root 'apptainer exec -f d.sif sh -c "echo \$HOME"'
  app_prints "$(app 'id -u')" 'apptainer exec --userns d.sif id -u'
  run -0 app 'for space in ipc uts; do readlink /proc/self/ns/$space
    apptainer exec --ipc --uts d.sif readlink /proc/self/ns/$space; done | sort -u | wc -l'
  expect_equal "$output" 4
  # What of /proc is covered in the box keeps processes of its own from a container there; see the next test.
  app_fails 'leave out --pid' 'apptainer exec --pid d.sif true'
  app_prints lo 'apptainer exec --net --network none d.sif tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "'
  app_prints box 'apptainer exec --hostname box d.sif uname -n'
  app_prints box 'APPTAINER_HOSTNAME=box apptainer exec d.sif cat /proc/sys/kernel/hostname'
  app_fails 'networks of CNI need root' 'apptainer exec --net d.sif true'
  app_fails 'networks of CNI need root' 'apptainer exec --net --network bridge d.sif true'
}

@test "--pid and --containall: a process sees its own processes, and ends with them" {
  run -0 --separate-stderr with_proc 'cd ~/app; sleep 1234 & apptainer exec --pid d.sif sh -c "echo /proc/[0-9]*
    kill -0 $! 2> /dev/null || echo unseen; readlink /proc/self/ns/pid" | sed "s/pid:.*/own/"
    apptainer exec d.sif sh -c "kill -0 $! && echo seen"; kill $!'
  expect_equal "$output" $'/proc/1 /proc/2\nunseen\nown\nseen'
  run -0 --separate-stderr with_proc 'cd ~/app; apptainer exec -C d.sif sh -c "echo \$\$; ls -A ~"
    apptainer exec --compat d.sif sh -c "sleep 4321 & echo \$\$"; ps -eo args | grep -c "^sleep 4321" || true'
  expect_equal "$output" $'2\n2\n0'
}

@test "folders of a cache are the site's, which a pull says" {
  local folders="APPTAINER_CACHEDIR=/c SINGULARITY_TMPDIR=/t"
  run -0 --separate-stderr app "$folders apptainer pull -F cached.sif docker://$image"
  expect_equal "$(grep -c '^INFO:    APPTAINER_CACHEDIR, SINGULARITY_TMPDIR: no effect; images are .* in /' \
    <<< "$stderr")" 1
  run -0 --separate-stderr app "$folders apptainer exec docker://$image true"
  [[ $stderr == *'APPTAINER_CACHEDIR, SINGULARITY_TMPDIR: no effect'* ]] || fail "$stderr"
  # A file is where it is.
  run -0 --separate-stderr app "$folders apptainer exec d.sif true"
  expect_equal "$stderr" ""
  run -0 --separate-stderr app "$folders apptainer -q pull -F cached.sif docker://$image; rm cached.sif"
  expect_equal "$stderr" ""
}

@test "build FILE docker://: a file, as pull writes it" {
  run -0 --separate-stderr app "singularity -q build w/b.sif docker://$image; ls w/b.sif"
  expect_equal "$output" w/b.sif
  app_fails 'Image file already exists: "w/b.sif"' "apptainer build w/b.sif docker://$image"
  run -0 app "apptainer -q build --fakeroot --force w/b.sif docker://$image"
  app_fails 'are not built of definition files' 'echo "Bootstrap: docker" > x.def; apptainer build w/c.sif x.def'
  app_fails '^FATAL:   --sandbox: ' "apptainer build --sandbox w/c docker://$image"
  app_fails '^FATAL:   --docker-username: ' "APPTAINER_DOCKER_USERNAME=u apptainer pull -F w/b.sif docker://$image"
}

@test "what cannot be is refused in one line, by flag and by variable" {
  for flag in --add-caps=all --allow-setuid --apply-cgroups=f --cpus=1 --fusemount=x --keep-privs --memory=1G \
    --netns-path=/x --security=seccomp:x --sharens --passphrase --pem-path=/x; do
    app_fails "^FATAL:   ${flag%%=*}: " "apptainer exec $flag d.sif true"
  done
  app_fails '^FATAL:   --security: ' 'SINGULARITY_SECURITY=x apptainer exec d.sif true'
  for command in oci remote plugin capability instance key sif sign search; do
    app_fails "^FATAL:   apptainer $command: " "apptainer $command x"
  done
  app_fails 'there is no command nosuch' 'apptainer nosuch'
  run -1 app 'apptainer exec --no-such-flag d.sif true'
  app_prints yes 'APPTAINER_DOCKER_USERNAME=u apptainer exec d.sif echo yes'
}

@test "--compat, --no-umask and the caller's umask" {
  app_prints 0027 'umask 0027; apptainer exec d.sif sh -c umask'
  app_prints 0022 'umask 0027; apptainer exec --no-umask d.sif sh -c umask'
  app_prints $'0022\n/home/alice' 'umask 0027; apptainer exec --compat --no-pid d.sif sh -c "touch /new; umask; pwd"'
}

@test "--quiet and --silent leave out what they should" {
  run -0 app 'apptainer exec --disable-cache d.sif true'
  expect_output_like '^WARNING: --disable-cache'
  run -0 app 'apptainer --silent exec --disable-cache d.sif true'
  expect_equal "$output" ""
}

@test "scripts of an image that do more than set variables are read by its shell, and the user's variables hold" {
  app 'rm -rf sb; mkdir -p sb; unsquashfs -f -d sb -no-xattrs d.sqsh > /dev/null 2>&1 || test -d sb/bin
    rm -f sb/etc/rc sb/etc/environment; mkdir -p sb/.singularity.d/env
    cat > sb/.singularity.d/env/90-environment.sh <<"END"
if true; then export MADE="by a shell"; fi
export WON=image
END
    printf "#!/bin/sh\necho ran \$*\n" > sb/.singularity.d/runscript; chmod +x sb/.singularity.d/runscript'
  app_prints 'by a shell' 'apptainer exec sb sh -c "echo \$MADE"'
  app_prints user 'apptainer exec --env WON=user sb sh -c "echo \$WON"'
  app_prints 'user:by a shell' "apptainer exec --env 'X=user:\$MADE' sb sh -c 'echo \$X'"
  app_prints 'ran a b' 'apptainer run sb a b'
  app_prints 'echo ran $*' 'apptainer inspect --runscript sb | tail -n 1'
  app 'chmod -R u+w sb; rm -rf sb'
}

@test "inspect: labels, also as JSON, and what the image has of the rest" {
  app 'rm -rf lb; mkdir -p lb; unsquashfs -f -d lb -no-xattrs d.sqsh > /dev/null 2>&1 || test -d lb/bin
    mkdir -p lb/.singularity.d/env
    printf "{\n\t\"a.b\": \"c d\",\n\t\"e\": \"f\"\n}\n" > lb/.singularity.d/labels.json
    echo "export X=1" > lb/.singularity.d/env/90-environment.sh; echo help > lb/.singularity.d/runscript.help'
  app_prints $'a.b: c d\ne: f' 'apptainer inspect lb'
  app_prints 'c d' 'apptainer inspect --json lb | jq -r ".data.attributes.labels.\"a.b\""'
  app_prints docker 'apptainer inspect --json d.sif |
    jq -r ".data.attributes.labels.\"org.label-schema.usage.singularity.deffile.bootstrap\""'
  app_fails 'pull it first' "apptainer inspect docker://$image"
  app_prints help 'singularity inspect --helpfile lb'
  app_prints $'=== /.singularity.d/env/90-environment.sh ===\nexport X=1' 'apptainer inspect -e lb'
  app_prints 'bootstrap: docker' 'apptainer inspect --deffile d.sif | head -n 1'
  app 'chmod -R u+w lb; rm -rf lb'
  # Of an image without a shell, where nothing could run.
  app 'mkdir -p bare/.singularity.d/env; echo "{\"a\": \"b\"}" > bare/.singularity.d/labels.json
    ln -s 90-environment.sh bare/.singularity.d/env/91-environment.sh
    echo "export X=1" > bare/.singularity.d/env/90-environment.sh; ln -s labels.json bare/.singularity.d/runscript
    ln -s runscript.help bare/.singularity.d/runscript.help
    mksquashfs bare bare.sif -quiet -no-progress > /dev/null'
  for file in bare bare.sif; do
    app_prints 'a: b' "apptainer inspect $file"
    app_prints '{"a": "b"}' "apptainer inspect -r $file"
    app_prints '' "apptainer inspect --helpfile $file"
    app_prints '["export X=1","export X=1"]' \
      "apptainer inspect --json -e $file | jq -c '.data.attributes.environment | [.[]]'"
  done
  app 'rm -rf bare bare.sif'
}

@test "cache and registry are about Berth's store and logins" {
  run -0 app 'apptainer cache list'
  expect_output_like 'debian:12'
  run -0 app 'apptainer cache clean --dry-run --days 900 --force'
  app_fails 'write list or clean' 'apptainer cache'
  run -0 app "apptainer registry login --help"
  app_fails 'write --password-stdin' "apptainer registry login --username u --password x docker://$registry"
}

@test "command lines as Nextflow, cwltool and Snakemake build them" {
  app_prints $'/tmp\n/home/alice/app' 'env - PATH="$PATH" SINGULARITYENV_TMP=/tmp singularity exec --no-home \
    -B "$PWD" d.sif /bin/bash -c "cd $PWD; echo \$TMP; pwd"'
  app_prints $'/var/spool/cwl\nthere\n/tmp' 'cwl=/var/lib/cwl/s
    export SINGULARITYENV_TMPDIR=/tmp; singularity --quiet run --contain --ipc \
    --cleanenv --no-eval --userns --home $PWD/w:/var/spool/cwl --bind=$PWD/w:/tmp --bind=$PWD/data/x:$cwl/x:ro \
    --pwd /var/spool/cwl --net --network none d.sif sh -c "pwd; cat /var/lib/cwl/s/x; echo \$TMPDIR"'
  app_prints there 'singularity --quiet exec --home $PWD d.sif bash -c "set -euo pipefail; cat data/x"'
}

@test "in a step of Slurm: srun singularity exec" {
  run -0 --separate-stderr app 'srun -n2 singularity exec --nv --cleanenv --contain --bind data:/data d.sif cat /data/x'
  expect_equal "$output" $'there\nthere'
  run -0 --separate-stderr app 'srun apptainer exec d.sif sh -c "echo \$SLURM_PROCID"'
  expect_equal "$output" 0
}

@test "in a step: GPUs of --nv and --device are those that it was granted, whatever of its variables get in" {
  local gpus='sh -c "cd /dev; ls -d nvidia[0-9]* | wc -l"'
  app_prints 1 "srun -w n1 --gres=gpu:h100:1 singularity exec --nv d.sif $gpus"
  app_prints 1 "srun -w n1 --gres=gpu:h100:1 singularity exec --nv --cleanenv --contain d.sif $gpus"
  app_prints 1 "srun -w n1 --gres=gpu:h100:1 apptainer exec --device nvidia.com/gpu=all --cleanenv d.sif $gpus"
  app_prints 2 "srun -w n1 --gres=gpu:h100:2 apptainer exec --nv --cleanenv d.sif $gpus"
  app_prints 0 "srun -w n1 --gres=gpu:h100:1 apptainer exec --no-nv d.sif $gpus"
  # None where devices are constrained, and else what every container of Berth has.
  run -0 --separate-stderr app "srun -w n1 --export=ALL,NVIDIA_VISIBLE_DEVICES=all --container-image=$image $gpus"
  app_prints "$output" "srun -w n1 apptainer exec --nv d.sif $gpus"
}

@test "policy.mount_sources: what is asked for stands under it, and what is not is left out with a warning" {
  with_site_lines '[policy]' 'mount_sources = "/home/alice/app/data"'
  run -0 --separate-stderr app 'apptainer exec d.sif sh -c "echo in; ls /home/alice/app"'
  expect_equal "$output" in
  expect_equal "$(grep -c '^WARNING: .* is not mounted, since policy.mount_sources does not have it' <<< "$stderr")" 3
  app_prints there 'apptainer -s exec -B data:/data d.sif cat /data/x'
  app_fails 'policy.mount_sources allows' 'apptainer exec -B w:/w d.sif true'
  app_fails 'policy.mount_sources allows' 'apptainer exec --home w:/home/guest d.sif true'
  app_fails 'policy.mount_sources allows' 'mkdir -p o; apptainer exec --overlay o d.sif true'
}
