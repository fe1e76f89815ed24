#!/usr/bin/env bats
# apptainer instance: containers in the background, their names, their ends, and what they have of a job's life.
# shellcheck disable=SC2016,SC2154
load helper

setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  in_home 'rm -rf inst .apptainer; mkdir inst; cd inst
    berth import --quiet --force --plain -o d.sqsh '"$image"'
    unsquashfs -d tree -no-xattrs d.sqsh > /dev/null 2>&1 || test -d tree/bin
    mkdir -p tree/.singularity.d/env tree/scif/apps/tool/scif
    printf "#!/bin/sh\necho image runs \$*\n" > tree/.singularity.d/runscript
    printf "#!/bin/sh\necho tool starts\n" > tree/scif/apps/tool/scif/startscript
    cat > tree/.singularity.d/startscript; chmod +x tree/.singularity.d/*script tree/scif/apps/tool/scif/startscript
    mksquashfs tree i.sqsh -noappend -quiet -no-progress -all-root > /dev/null
    chmod -R u+w tree; rm -rf tree' > "$BATS_FILE_TMPDIR/made" 2>&1 <<'END'
#!/bin/sh
echo "started $*"
echo "wrong $*" >&2
case $1 in
stay) trap 'echo stopped; exit 0' INT TERM ;;
deaf) trap '' INT TERM ;;
env) env; exit ;;
*) exit ;;
esac
echo ready
while :; do sleep 0.1; done
END
}

teardown() {
  restore_site
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || root scancel --user alice
  in_home 'apptainer --silent instance stop --all --force; rm -rf ~/.apptainer' > /dev/null 2>&1 || true
}

teardown_file() {
  in_home 'rm -rf inst .apptainer' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

inst() { in_home "cd inst; $1"; }

# fails TEXT COMMAND: one line FATAL with TEXT, and 255.
fails() {
  run -"${code:-255}" inst "$2"
  expect_equal "$(grep -c '^FATAL:   ' <<< "$output")" 1
  expect_output_like "$1"
}

names() { inst 'apptainer instance list --json | jq -r ".instances[].instance" | paste -sd " "'; }
log() { in_home "cat .apptainer/instances/logs/\$(hostname)/alice/$1"; }
has_said() { [[ $(log "$1") == *"$2"* ]]; }
keeper() { inst "apptainer instance list --json $1 | jq .instances[0].pid"; }

@test "an instance runs the image's startscript in the background, and prints to its files" {
  run -0 --separate-stderr inst 'apptainer instance start --pid-file pid i.sqsh web stay a b'
  expect_equal "$output" ""
  [[ $stderr == *"INFO:    instance started successfully"* ]]
  [[ $stderr == *"/home/alice/.apptainer/instances/logs/"*"/alice/web.out"* ]]
  wait_until 20 has_said web.out ready
  expect_equal "$(log web.out)" $'started stay a b\nready'
  expect_equal "$(log web.err)" 'wrong stay a b'
  run -0 inst 'apptainer instance list'
  pid=$(inst 'cat pid')
  expect_equal "${lines[0]}" "$(printf 'INSTANCE NAME    %-*sIP    IMAGE' $((${#pid} + 4)) PID)"
  expect_equal "${lines[1]}" "$(printf 'web              %s          /home/alice/inst/i.sqsh' "$(inst 'cat pid')")"
  run -0 inst 'apptainer instance list --json'
  expect_equal "$output" "$(printf '{\n\t"instances": [\n\t\t{\n\t\t\t"instance": "web",\n\t\t\t"pid": %s,
\t\t\t"img": "/home/alice/inst/i.sqsh",\n\t\t\t"ip": "",\n\t\t\t"logErrPath": "%s.err",
\t\t\t"logOutPath": "%s.out"\n\t\t}\n\t]\n}' "$(inst 'cat pid')" \
    "$(in_home 'echo ~/.apptainer/instances/logs/$(hostname)/alice/web')" \
    "$(in_home 'echo ~/.apptainer/instances/logs/$(hostname)/alice/web')")"
  run -0 inst 'apptainer instance list --logs "w*"'
  expect_output_like 'LOGS.*/web.err.*/web.out'
  run -0 --separate-stderr inst 'singularity exec instance://web sh -c "echo \$APPTAINER_INSTANCE \$APPTAINER_NAME"'
  expect_equal "$output" 'web i.sqsh'
  run -0 --separate-stderr inst 'apptainer run instance://web x; echo "echo \$0" | apptainer shell instance://web'
  expect_equal "$output" $'image runs x\n/bin/bash'
  run -0 inst 'apptainer instance stop web'
  expect_equal "$output" "INFO:    Stopping web instance of /home/alice/inst/i.sqsh (PID=$(inst 'cat pid; rm pid'))"
  expect_equal "$(log web.out)" $'started stay a b\nready\nstopped'
  expect_equal "$(names)" ""
  code=255 fails 'no instance found with name web' 'apptainer exec instance://web true'
  expect_no_leftovers
}

@test "what an instance uses, as a table and as JSON; of one instance" {
  inst 'apptainer -q instance start i.sqsh one stay; apptainer -q instance start i.sqsh only stay'
  run -0 inst 'apptainer instance stats --no-stream one'
  expect_equal "${lines[0]%% (PID*}" 'INFO:    Stats for one instance of /home/alice/inst/i.sqsh'
  [[ ${lines[1]} =~ ^'INSTANCE NAME    CPU USAGE    MEM USAGE / LIMIT'\ +'MEM %'\ +'BLOCK I/O'\ +PIDS$ ]]
  [[ ${lines[2]} =~ ^one\ +[0-9.]+%\ +[0-9.]+[KM]iB\ /\ [0-9.]+[MGT]iB\ +[0-9.]+%\ .*\ [1-9][0-9]*$ ]]
  run -0 inst 'apptainer instance stats --json one | jq -e ".cpu_stats.cpu_usage.total_usage >= 0 and
    .pids_stats.current > 0 and .memory_stats.usage.usage > 0 and
    .memory_stats.usage.limit > .memory_stats.usage.usage"'
  expect_equal "$output" true
  code=1 fails 'more than one instance .2.' 'apptainer instance stats --no-stream "on*"'
  # It goes on until the instance has ended.
  inst 'timeout 60 apptainer -q instance stats only > stream & until grep -q ^only stream; do :; done
    apptainer -q instance stop only; wait'
  inst 'apptainer -q instance stop --all; rm stream'
  expect_no_leftovers
}

@test "what an instance starts: a script that ends at once, none, an app's, the runscript" {
  inst 'apptainer -q instance start i.sqsh short; apptainer -q instance start d.sqsh none
    apptainer -q instance run i.sqsh runs now; apptainer -q instance start --app tool i.sqsh app'
  wait_until 20 has_said short.out started
  wait_until 20 has_said runs.out 'image runs now'
  wait_until 20 has_said app.out 'tool starts'
  expect_equal "$(log none.out)$(log none.err)" ""
  expect_equal "$(names)" "app none runs short"
  for name in app none runs short; do inst "apptainer exec instance://$name true"; done
  inst 'apptainer -q instance stop --all'
  expect_equal "$(names)" ""
  expect_no_leftovers
}

@test "names: one instance each, of two that start at once; what is no name is refused" {
  inst 'apptainer -q instance start i.sqsh one stay'
  fails 'instance one already exists' 'apptainer instance start i.sqsh one'
  fails 'instance one already exists' 'apptainer instance run i.sqsh one'
  fails 'is not a valid instance name' 'apptainer instance start i.sqsh a/b'
  fails 'starting an instance from another is not allowed' 'apptainer instance start instance://one two'
  fails 'no instance found with name two' 'apptainer exec instance://two true'
  code=1 fails 'no instance found' 'apptainer instance stop two'
  code=1 fails "write the instance's name, or --all" 'apptainer instance stop'
  fails 'more than one flags' 'apptainer instance list --json --logs'
  fails 'Only root user can list' 'apptainer instance list --user bob'
  code=1 fails 'no instance found' 'apptainer instance stats --no-stream two'
  for _ in $(seq 10); do
    run inst 'for i in 1 2 3; do apptainer -q instance start i.sqsh both stay & done; wait
      apptainer instance stop -F both'
    expect_equal "$(grep -c 'already exists' <<< "$output")" 2
    expect_equal "$(grep -c 'Stopping both' <<< "$output")" 1
  done
  inst 'apptainer -q instance stop one'
  expect_no_leftovers
}

@test "an instance whose keeper or helper is killed is none any more, and another one starts" {
  for who in keeper helper; do
    inst 'apptainer -q instance start i.sqsh dead stay'
    wait_until 20 has_said dead.out ready
    pid=$(keeper dead)
    # The helper is the keeper's first child.
    [[ $who == keeper ]] || pid=$(inst "cat /proc/$pid/task/$pid/children | cut -d' ' -f1")
    inst "kill -9 $pid"
    gone() { [[ -z $(names) ]]; }
    wait_until 20 gone
    no_scripts() { ! root pgrep -f /.singularity.d/startscript > /dev/null; }
    wait_until 20 no_scripts
    inst 'apptainer -q instance start i.sqsh dead stay; apptainer exec instance://dead true
      apptainer -q instance stop dead; rm -rf ~/.apptainer'
  done
  # Both at once leave what the next start ends.
  inst 'apptainer -q instance start i.sqsh dead deaf'
  wait_until 20 has_said dead.out ready
  pid=$(keeper dead)
  inst "kill -9 \$(cat /proc/$pid/task/$pid/children | cut -d' ' -f1) $pid"
  wait_until 20 gone
  inst 'apptainer -q instance start i.sqsh dead stay; apptainer -q instance stop dead'
  wait_until 20 no_scripts
  expect_no_leftovers
}

@test "fifty starts and stops in turns" {
  run -0 inst 'for i in $(seq 50); do
      apptainer -q instance start d.sqsh turn && apptainer -q exec instance://turn true &&
        apptainer -q instance stop turn || exit
    done'
  expect_equal "$output" ""
  expect_no_leftovers
}

@test "stop: signals, patterns, and processes that ignore them" {
  inst 'for i in 1 2; do apptainer -q instance start i.sqsh stay$i stay; done
    apptainer -q instance start i.sqsh deaf deaf; apptainer -q instance start i.sqsh deaf2 deaf'
  for name in stay1 stay2 deaf deaf2; do wait_until 20 has_said $name.out ready; done
  run -0 inst 'apptainer instance stop --signal TERM "stay*"'
  expect_equal "$(names)" "deaf deaf2"
  expect_equal "$(log stay1.out)" $'started stay\nready\nstopped'
  run -0 inst 'apptainer instance stop --timeout 1 deaf'
  expect_output_like 'Killing deaf instance of .* \(Timeout\)'
  expect_equal "$(names)" "deaf2"
  run -0 inst 'apptainer instance stop --force deaf2'
  [[ $output != *Timeout* ]]
  expect_equal "$(names)" ""
  fails 'there is no such signal' 'apptainer instance stop --signal NONE deaf'
  # By hand: processes get it, and an instance without any ends by it.
  inst 'apptainer -q instance start i.sqsh hand stay'
  wait_until 20 has_said hand.out ready
  inst "kill \$(apptainer instance list --json hand | jq .instances[0].pid)"
  wait_until 20 has_said hand.out stopped
  gone() { [[ -z $(names) ]]; }
  ended() { gone || { inst "kill $(keeper hand)" 2> /dev/null; false; }; }
  wait_until 20 ended
  expect_no_leftovers
}

@test "options of a start hold for all in it; those of exec that cannot are named" {
  inst 'mkdir -p over bound; echo kept > bound/file
    apptainer -q instance start --env FOO=start --bind bound:/mnt --writable-tmpfs i.sqsh tmpfs env
    apptainer -q instance start --overlay over -H bound:/home/temp i.sqsh over'
  wait_until 20 has_said tmpfs.out FOO=start
  run -0 --separate-stderr inst 'apptainer exec instance://tmpfs sh -c "cat /mnt/file; echo x > /new; echo \${FOO-none}"
    apptainer exec --env FOO=exec instance://tmpfs sh -c "cat /new; echo \$FOO"
    apptainer exec instance://over sh -c "echo over > /new; echo \$HOME"; cat over/upper/new'
  expect_equal "$output" $'kept\nnone\nx\nexec\n/home/temp\nover'
  run -0 --separate-stderr inst 'apptainer exec --bind over:/srv --fakeroot instance://tmpfs \
    sh -c "ls -d /srv/upper; id -u"'
  expect_equal "$output" "$(alice id -u)"
  expect_equal "$(grep INFO <<< "$stderr" | sort)" \
    $'INFO:    --bind ignored when joining instance\nINFO:    --fakeroot ignored when joining instance'
  run -0 --separate-stderr inst 'cd /usr/share && apptainer exec instance://tmpfs pwd
    apptainer exec --cwd /etc instance://tmpfs pwd; cd /var/lib; apptainer exec instance://tmpfs pwd'
  expect_equal "$output" $'/usr/share\n/etc\n/var/lib'
  inst 'apptainer -q instance stop -a; rm -rf over bound'
  expect_no_leftovers
}

@test "an instance has processes of its own where it can" {
  run -0 with_proc 'cd ~/inst; apptainer -q instance start i.sqsh own stay
    apptainer exec instance://own cat /proc/1/comm; apptainer instance stop own; apptainer instance list --json'
  [[ $output == *berth-init* && $output == *'"instances": []'* ]]
}

@test "an instance of a step ends with the step, one of a batch script is there for the job's steps on its node" {
  run -0 --separate-stderr inst 'srun -w n1 sh -c "apptainer -q instance start i.sqsh step deaf; \
    apptainer exec instance://step echo in step"'
  expect_equal "$output" "in step"
  wait_until 20 expect_nodes_up
  expect_no_leftovers
  inst 'cat > batch; rm -f batch.out' <<'END'
#!/bin/bash
#SBATCH -w n1 -o batch.out
apptainer -q instance start i.sqsh job deaf
for i in 1 2; do srun apptainer exec instance://job sh -c 'echo step $SLURM_STEP_ID of $APPTAINER_INSTANCE'; done
apptainer instance list --json | jq -r '.instances[].instance'
END
  run -0 inst "timeout $((120 * slowness)) $sbatch_wait batch"
  expect_equal "$(inst 'without() { grep -vE "^srun:" batch.out; }; without')" $'step 0 of job\nstep 1 of job\njob'
  wait_until 20 expect_nodes_up
  run -0 alice srun -w n1 apptainer instance list --json
  [[ $output == *'"instances": []'* ]]
  expect_no_leftovers
}
