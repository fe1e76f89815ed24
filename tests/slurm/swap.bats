#!/usr/bin/env bats
# The day a site goes from Pyxis to Berth, and back: both plugins in plugstack.conf, on all hosts or on some. Rows of
# docs/migration.md are tests of that name.
load helper

folder=/etc/slurm/plugstack.conf.d

setup_file() {
  make_like_pyxis
}

teardown_file() {
  rm -r "${pyxis%/*}"
}

setup() {
  root mkdir -p /etc/slurm/kept-by-test
  root cp -a "$folder/berth.conf" /etc/slurm/plugstack.conf /etc/slurm/kept-by-test/
}

teardown() {
  root rm -f "$folder/pyxis.conf" "$folder/aaa.conf" "$folder/berth.conf.disabled" "$folder/.berth.conf.disabled"
  root mv /etc/slurm/kept-by-test/berth.conf "$folder/berth.conf"
  root mv /etc/slurm/kept-by-test/plugstack.conf /etc/slurm/plugstack.conf
  restore_site
  root rm -rf /etc/enroot-of-test /etc/berth/hooks.d
  cancel_everything
  alice rm -rf slurm.conf plugstack.conf plugstack.conf.d out
}

# Pyxis' line, read after ours or, as aaa.conf, before it.
with_pyxis() { root bash -c "echo 'required $pyxis' > $folder/${1:-pyxis.conf}"; }

# In srun's own plugstack.conf these lines alone; that of the nodes stays as it is.
srun_has() {
  in_home "cat > plugstack.conf; { grep -v ^PlugStackConfig /etc/slurm/slurm.conf
    echo PlugStackConfig=/home/alice/plugstack.conf; } > slurm.conf"
}

stands_back='berth: plugstack.conf loads the plugin of Pyxis as well, .* Pyxis does the work, and Berth nothing; take'

@test "installing beside Pyxis is harmless: its plugin runs the steps as before, whichever line is first" {
  for name in pyxis.conf aaa.conf; do
    with_pyxis "$name"
    run -0 alice srun -w n1 --container-image="$image" grep -c . /etc/hostname
    expect_output_like "$stands_back"
    expect_one_error_line
    expect_output_like "like pyxis: $image"
    # Not even Slurm's lines about options that two plugins have.
    [[ $output != *"provided by both"* ]] || fail "$output"
    run -0 alice env PYXIS_CONTAINER_IMAGE="$image" BERTH_CONTAINER_IMAGE="$image" srun -w n1 true
    expect_output_like "like pyxis: $image"
    run -0 alice srun -w n1 sh -c 'env | grep SLURM_BERTH_OPTIONS || echo none'
    expect_output_like none
    [[ $output != *"like pyxis"* ]] || fail "$output"
    run -0 alice "$sbatch_wait" -w n1 -o out --container-image="$image" --wrap true
    expect_output_like "$stands_back"
    expect_equal "$(alice grep -o 'like pyxis: .*' out)" "like pyxis: $image"
    root rm "$folder/$name"
  done
  expect_nodes_up
}

@test "srun has Berth alone, the nodes both: Berth runs the step, also by Pyxis' variables" {
  with_pyxis
  srun_has <<< 'required spank_berth.so'
  for way in "srun --container-image=$image" "env PYXIS_CONTAINER_IMAGE=$image srun" \
      "env PYXIS_CONTAINER_IMAGE=$image srun --export=PATH,PYXIS_CONTAINER_IMAGE"; do
    run -0 in_home "SLURM_CONF=/home/alice/slurm.conf $way -w n1 cat /etc/debian_version /etc/hostname"
    [[ $output != *"like pyxis"* ]] || fail "$way:" "$output"
    expect_output_like '^12'
  done
  run -0 in_home "SLURM_CONF=/home/alice/slurm.conf PYXIS_CONTAINER_IMAGE=$image PYXIS_CONTAINER_REMAP_ROOT=1 \
    srun -w n1 id -u"
  expect_equal "$output" 0
  run -0 in_home "SLURM_CONF=/home/alice/slurm.conf srun -w n1 true"
  expect_equal "$output" ""
}

@test "a swap and a swap back by berth setup: srun runs its steps on the way" {
  root rm "$folder/berth.conf"
  with_pyxis
  run -0 contained true
  expect_output_like "like pyxis: $image"
  run -0 root berth setup plugstack --enable
  expect_output_like "$folder/berth.conf: a link to /usr/share/berth/plugstack.conf now"
  expect_output_like "/etc/slurm/plugstack.conf leads to it: restart slurmd"
  expect_output_like "$folder/pyxis.conf loads the plugin of Pyxis, which does the work until that line is taken out"
  run -0 contained true
  expect_output_like "like pyxis: $image"
  run alice berth doctor
  expect_output_like "$folder/pyxis.conf loads the plugin of Pyxis as well"
  root rm "$folder/pyxis.conf"
  run -0 contained cat /etc/debian_version
  expect_output_like '^12'
  run -0 root berth setup plugstack --enable
  expect_output_like "$folder/berth.conf loads spank_berth.so already"
  with_pyxis
  run -0 root berth setup plugstack --disable
  expect_output_like "$folder/berth.conf: removed"
  run -0 contained true
  expect_equal "$(grep -v '^srun: ' <<< "$output")" "like pyxis: $image"
  run -0 root berth setup plugstack --disable
  expect_output_like "berth.conf is not there"
  # A link that leads nowhere, as after the package is gone, is nothing to Slurm.
  root ln -s /usr/share/berth/gone.conf "$folder/berth.conf"
  run -0 contained true
  expect_nodes_up
}

@test "berth setup keeps a file with the site's words, and says when nothing includes it" {
  run -0 root berth setup plugstack --disable
  expect_output_like "$folder/berth.conf is $folder/berth.conf.disabled now"
  run contained true
  expect_failure
  expect_output_like "unrecognized option '--container-image"
  run -0 root berth setup plugstack --enable
  expect_output_like "$folder/berth.conf: back again"
  run -0 contained true

  alice mkdir -p plugstack.conf.d
  in_home 'echo "# nothing yet" > plugstack.conf'
  run -0 alice berth setup plugstack --enable --folder /home/alice
  expect_output_like 'plugstack.conf does not include it: add the line "include /home/alice/plugstack.conf.d/\*.conf"'
  expect_equal "$(alice readlink plugstack.conf.d/berth.conf)" /usr/share/berth/plugstack.conf
  in_home 'rm plugstack.conf.d/berth.conf; echo "# mine" > plugstack.conf.d/berth.conf'
  run alice berth setup plugstack --enable --folder /home/alice
  expect_failure
  expect_output_like "a file is there that does not load spank_berth.so"
  run alice berth setup plugstack --enable
  expect_status 0
  run alice berth setup plugstack --disable
  expect_failure
  expect_output_like "Permission denied"
}

@test "berth setup: configless Slurm has its files in /run, and the line stays in /etc" {
  run -0 root berth setup plugstack --disable
  root bash -c 'mkdir -p /run/slurm/conf; cp /etc/slurm/slurm.conf /etc/slurm/plugstack.conf /run/slurm/conf
    sed -i /PlugStackConfig/d /run/slurm/conf/slurm.conf; rm -f /etc/slurm/plugstack.conf.d/berth.conf.disabled'
  run -0 root berth setup plugstack --enable --folder /run/slurm/conf
  expect_output_like "$folder/berth.conf: a link to /usr/share/berth/plugstack.conf now"
  expect_output_like "/run/slurm/conf/plugstack.conf leads to it: restart slurmd"
  run -0 root test ! -e /run/slurm/conf/plugstack.conf.d
  run -0 contained true
  root rm -r /run/slurm/conf
}

@test "berth setup and doctor: a line by which no srun starts is no success" {
  root bash -c "echo 'required spank_berth.so container_scop=job' > $folder/berth.conf"
  run root berth setup plugstack --enable
  expect_failure
  expect_output_like "$folder/berth.conf: spank_berth.so has no setting container_scop; "
  expect_output_like "; did you mean container_scope\?; mend the line before slurmd is restarted"
  run alice berth doctor
  expect_failure
  expect_output_like "FAILED   Slurm .*$folder/berth.conf: spank_berth.so has no setting container_scop"
  run contained true
  expect_failure
  root bash -c "echo 'required spank_berth.so helper=/usr/bin/berthh' > $folder/berth.conf"
  run root berth setup plugstack --enable
  expect_failure
  expect_output_like "looking for the helper /usr/bin/berthh"
  run alice berth doctor
  expect_failure
  expect_output_like "FAILED   Slurm .*looking for the helper /usr/bin/berthh"
}

@test "what --disable puts away is not found by the site's own include of all files" {
  root bash -c "echo 'include plugstack.conf.d/*' > /etc/slurm/plugstack.conf"
  run -0 root berth setup plugstack --disable
  expect_output_like "$folder/berth.conf is $folder/.berth.conf.disabled now"
  expect_output_like 'does not load spank_berth.so'
  run contained true
  expect_failure
  expect_output_like "unrecognized option '--container-image"
  run -0 root berth setup plugstack --enable
  expect_output_like "$folder/berth.conf: back again"
  run -0 contained true
  # What a former release has put away.
  root mv "$folder/berth.conf" "$folder/berth.conf.disabled"
  run -0 root berth setup plugstack --disable
  expect_output_like "$folder/berth.conf.disabled is $folder/.berth.conf.disabled now"
  expect_output_like 'does not load spank_berth.so'
  root mv "$folder/.berth.conf.disabled" "$folder/berth.conf"
}

@test "row 13: plugstack words runtime_path= importer= use_squashfuse= use_enroot_load= start, with one line in slurmd's log" {
  root bash -c "echo 'required spank_berth.so runtime_path=/run/pyxis importer=/opt/importer.sh use_squashfuse=1 \
use_enroot_load=yes' > $folder/berth.conf"
  run -0 contained cat /etc/debian_version
  expect_output_like '^12'
  [[ $output != *importer* ]] || fail "$output"
  root env BERTH_BOX_DIR="$state" BERTH_BOX_PORT="${BERTH_BOX_PORT:-16817}" "$state/lib/nodes.sh" restart 2 \
    > "$BATS_TEST_TMPDIR/log" 2>&1 3>&- < /dev/null
  wait_until 20 grep -q 'words of Pyxis without an effect here' "$state/log/slurmd.n1.log"
  expect_equal "$(grep -o 'words of Pyxis.*here: [^;]*' "$state/log/slurmd.n1.log" | sort -u)" \
    "words of Pyxis without an effect here: runtime_path=/run/pyxis importer=/opt/importer.sh use_squashfuse=1 \
use_enroot_load=yes"
  expect_nodes_up
}

@test "row 26: steps run with what berth migrate makes of a site's enroot.conf, environ.d, mounts.d and hooks.d" {
  # shellcheck disable=SC2016
  root bash -euc 'mkdir -p /etc/enroot-of-test/{environ.d,mounts.d,hooks.d}; cd /etc/enroot-of-test
    echo "ENROOT_MOUNT_HOME yes" > enroot.conf
    echo "OF_SITE=site" > environ.d/10-site.env
    echo "/etc/slurm /mnt/slurm none x-create=dir,bind,ro" > mounts.d/10-slurm.fstab
    printf "%s\n" "#!/bin/bash" "echo OF_HOOK=hook >> \$ENROOT_ENVIRON" > hooks.d/50-own.sh
    chmod 755 hooks.d/50-own.sh'
  # shellcheck disable=SC2016
  look='echo "$OF_SITE $OF_HOOK"; ls /mnt/slurm/slurm.conf; test -O "$HOME/.bashrc" && echo home'
  alice touch .bashrc
  run contained sh -c "$look"
  [[ $output != *site* && $output != *home* ]] || fail "$output"
  # What restore_site brings back.
  with_site_lines '# as it was'
  run -0 root berth migrate --enroot /etc/enroot-of-test --force
  run -0 contained sh -c "$look"
  expect_equal "$output" $'site hook\n/mnt/slurm/slurm.conf\nhome'
}
