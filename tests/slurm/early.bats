#!/usr/bin/env bats
# Steps that start before the layers of their image are here (store.start = "early").
load helper

folder=$state/early
# A registry that keeps blobs back: each digest that is a line of this file.
held=$folder/held
artifacts=$faulty/site/early

setup_file() {
  root bash -c "rm -rf $folder && mkdir -m 0777 $folder && cd $folder &&
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem &&
    openssl pkey -in key.pem -pubout -out key.pub && chmod 0644 *"
  python3 -B "$repo/tests/registry/held.py" "${faulty##*:}" "$registry" "$held" 3>&- > "$folder/log" 2>&1 &
  echo $! > "$BATS_FILE_TMPDIR/pid"
  # shellcheck disable=SC2016
  wait_until 60 curl -s -o /dev/null "http://$faulty/v2/"
  root tee "$folder/policy.json" > /dev/null <<END
{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"$artifacts": [
  {"type": "sigstoreSigned", "keyPath": "$folder/key.pub", "signedIdentity": {"type": "matchRepository"}}]}}}
END
  alice berth profile "$image" cat /srv/hello
  alice berth publish --to "$artifacts" --sign "$folder/key.pem" "$image"
}

teardown_file() {
  local pid
  pid=$(cat "$BATS_FILE_TMPDIR/pid")
  kill "$pid"
  wait_until 10 eval "! kill -0 $pid"
}

setup() {
  forget_images
  rm -f "$held"
  root bash -c "install -m 0666 /dev/null $folder/alice.jsonl"
  early_site
  mark_log
}

teardown() {
  rm -f "$held"
  restore_site
  cancel_everything
  forget_images
}

# The sites's settings: early_site [LINE of limits]; what is in `share_lines` is of [share].
share_lines=()
early_site() {
  # The site's file ends with [store].
  with_site_lines 'start = "early"' '[share]' "artifacts = \"$artifacts\"" "${share_lines[@]}" \
    '[policy]' "signatures = \"$folder/policy.json\"" '[events]' "log = \"$folder/%u.jsonl\"" "${@:+[limits]}" "$@"
}

# The blob of the layer number N as it is published.
published_layer() {
  local tag
  tag=$(manifest_digest 12 | tr : -).berth
  curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$registry/v2/site/early/manifests/$tag" |
    jq -r "[.layers[] | select(.mediaType | endswith(\"squashfs\"))][$1].digest"
}
# The registry that keeps back what is in this file is there no more. It may look at any moment.
let_go() {
  echo gone > "$1.new"
  mv "$1.new" "$1"
}
hold() { published_layer "$1" >> "$held"; }

partial() { root bash -c "ls $state/nodes/n1/store/*/partial"; }
image_is_here() { [ -z "$(partial)" ] && published | grep -q /images/; }
# Whether the step has asked for a part of the layer number N.
asked_for() { grep -q "GET .*$(published_layer "$1")" "$folder/log"; }
forget_requests() { : > "$folder/log"; }
last_event() { jq -s "last(.[]|select(.kind==\"$1\"))|$2" "$folder/alice.jsonl"; }

# A step in the background whose output is in $BATS_TEST_TMPDIR/out: step CMD...
step() {
  forget_requests
  contained "$@" > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  job=$!
}

# What it has printed. On a slow machine its start takes so long that it tells its progress.
told() { without_progress < "$BATS_TEST_TMPDIR/out"; }

@test "early: a step starts before its layers are here, waits for what it reads, and the image comes whole" {
  hold 1
  step sh -c 'cat /usr/lib/os-release > /dev/null && cat /srv/hello'
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  [ "$(partial)" ]
  expect_equal "$(published | grep -c /images/.)" 0
  run -0 alice srun --overlap -w n1 berth images
  expect_output_like "$image  [0-9a-f]{12}  [0-9.]+ MB of [0-9.]+ MB"
  expect_equal "$(alice srun --overlap -w n1 berth images --json |
    jq '.coming[0] | .tags != [] and .here_bytes < .bytes')" true
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
  # A step that lasts until all of it is here; a shorter one leaves the rest to the next.
  in_home "rm -f go"
  step --container-mount-home sh -c 'cd && until [ -e go ]; do sleep 0.1; done'
  wait_until 60 image_is_here
  in_home "touch go"
  wait "$job"
  expect_equal "$(last_event start .from)" '"pull"'
  # That step has fetched what the ones before had left, if anything.
  expect_equal "$(last_event pull '.published_bytes == .bytes and .node == "n1" and .job != null')" true
  expect_equal "$(log_since GET /v2/debian/blobs/ | grep -c "$(layer_digests 12 | head -n 1)")" 0
  run -0 alice srun -w n1 berth verify
  # From now on it is an image like any other.
  forget_requests
  run -0 contained cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(grep -c GET "$folder/log" || true)" 0
}

@test "early: a read that waits is told in srun, and by berth run" {
  hold 1
  step cat /srv/hello
  wait_until 60 grep -q 'n1: a read of the image has waited' "$BATS_TEST_TMPDIR/out"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
  progress=shown run cat "$BATS_TEST_TMPDIR/out"
  expect_output_like 'berth: n1: a read of the image has waited [0-9]+ s for bytes .*; [0-9]+ of [0-9]+ MiB are here'
  local store
  store=$(in_home 'mktemp -d ~/early.XXXXXX')
  hold 1
  alice srun -w n1 env BERTH_STORE_PATH="$store" berth run "$image" cat /srv/hello > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  job=$!
  wait_until 60 grep -q '^berth: a read of the image has waited' "$BATS_TEST_TMPDIR/out"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
  in_home "rm -rf $store"
}

@test "early: a killed process that fetches is made again, and all of them are an error for who reads" {
  hold 1
  step cat /srv/hello
  wait_until 60 asked_for 1
  local fetching
  fetching=$(root pgrep -n -x berth-pull)
  root kill -9 "$fetching"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
  forget_images
  hold 1
  step cat /srv/hello
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  kill_9_all 'pgrep -x berth-pull'
  local code=0
  wait "$job" || code=$?
  expect_equal "$code" 1
  run cat "$BATS_TEST_TMPDIR/out"
  expect_output_like "Input/output error"
  expect_nodes_up
}

@test "early: a registry that has gone is an I/O error after limits.stall_time, and what is here can be read" {
  restore_site
  early_site 'stall_time = 3'
  hold 1
  step sh -c 'cat /srv/hello; cat /usr/lib/os-release'
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  let_go "$held"
  wait "$job"
  run cat "$BATS_TEST_TMPDIR/out"
  expect_output_like "/srv/hello: Input/output error"
  expect_output_like "NAME=\"Debian"
  expect_equal "$(last_event failure '.error | contains("no")')" true
  # The next step goes on where this one was.
  rm "$held"
  run -0 contained cat /srv/hello
  expect_equal "$output" "hello from the image"
}

@test "early: a mirror goes after the start, and the registry sends the rest" {
  local port pid gone=$folder/mirror-held
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  published_layer 1 > "$gone"
  python3 -B "$repo/tests/registry/held.py" "$port" "$registry" "$gone" 3>&- > "$folder/mirror-log" 2>&1 &
  pid=$!
  wait_until 60 curl -s -o /dev/null "http://127.0.0.1:$port/v2/"
  restore_site
  share_lines=("[registry.\"$faulty\"]" "mirror = [\"127.0.0.1:$port\"]")
  early_site
  step cat /srv/hello
  wait_until 60 grep -q "GET .*$(published_layer 1)" "$folder/mirror-log"
  wait_until 60 a_task_lives
  expect_equal "$(grep -c GET "$folder/log" || true)" 0
  let_go "$gone"
  wait "$job"
  kill "$pid"
  expect_equal "$(told)" "hello from the image"
  asked_for 1
}

@test "early: a kill ends a task that waits for what has still to come, and the step with it" {
  hold 1
  step cat /srv/hello
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  cancel_everything
  wait "$job" || true
  within 30 no_jobs
  expect_no_leftovers
  expect_nodes_up
}

@test "early: a start that waits is told in srun" {
  hold 0
  hold 1
  step cat /srv/hello
  wait_until 60 grep -q 'a read of the image has waited 1 s' "$BATS_TEST_TMPDIR/out"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
}

@test "early: a step that is cancelled while its start waits for the image leaves nothing" {
  hold 0
  hold 1
  step cat /srv/hello
  wait_until 60 asked_for 0
  cancel_everything
  wait "$job" || true
  within 30 no_jobs
  expect_no_leftovers
  expect_nodes_up
}

two_steps_run() { (( $(alice squeue -h -s -o %i | wc -l) == 2 )); }

@test "early: two steps of a node share what comes" {
  hold 1
  # The job lasts until both have ended, whichever is first.
  run -0 alice salloc -Q --no-shell -w n1
  local allocation first second
  allocation=$(alice squeue -h -o %A)
  step --overlap --jobid="$allocation" cat /srv/hello
  first=$job
  wait_until 60 asked_for 1
  contained --overlap --jobid="$allocation" cat /srv/hello > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  second=$!
  wait_until 60 two_steps_run
  rm "$held"
  wait "$first"
  wait "$second"
  expect_equal "$(told)" "hello from the image"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" "hello from the image"
  cancel_everything
}

@test "early: a container that is saved is whole" {
  hold 1
  step --container-save="$folder/saved.sqsh" sh -c 'echo more > /srv/more'
  wait_until 60 asked_for 1
  rm "$held"
  wait "$job"
  run -0 alice srun -w n1 --container-image="$folder/saved.sqsh" cat /srv/hello /srv/more
  expect_equal "$output" $'hello from the image\nmore'
}

@test "early: steps note what they read of their image, for the next publication" {
  restore_site
  with_site_lines '[share]' 'record = true' 'record_time = 600'
  noted() { root bash -c "cat $state/nodes/n1/store/*/images/*/profile" 2> /dev/null | wc -c; }
  run -0 contained true
  local first
  first=$(noted)
  (( first >= 4 && first % 4 == 0 ))
  run -0 contained sh -c 'cat /usr/bin/* /usr/lib/x86_64-linux-gnu/*.so* > /dev/null'
  (( $(noted) > first ))
  expect_equal "$output" ""
  # Where nothing is to be noted, nothing is.
  restore_site
  forget_images
  run -0 contained true
  expect_equal "$(noted)" 0
}

# Named containers, of which the first step may end while another one is in them.
named() { alice srun -w n1 --container-name=early "$@"; }
a_reader_waits() { root pgrep -u alice -f '^cat /srv/hello$'; }
remove_named() { alice srun -w n1 berth rm --force early || true; }

# Also when the job that began it has ended, and its cgroup with it.
# bats test_tags=cgroup
@test "early: a named container's image goes on coming when the step that began it has ended" {
  hold 1
  in_home "rm -f first second"
  step --container-name=early --container-mount-home sh -c 'cd && until [ -e first ]; do sleep 0.1; done'
  local first=$job
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  named sh -c 'cat /srv/hello; cd && until [ -e second ]; do sleep 0.1; done' > "$BATS_TEST_TMPDIR/second" 2>&1 3>&- &
  local second=$!
  wait_until 60 a_reader_waits
  forget_requests
  in_home "touch first"
  wait "$first"
  # Somebody else asks for what the reader waits for.
  wait_until 60 asked_for 1
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" ""
  rm "$held"
  wait_until 60 image_is_here
  in_home "touch second"
  wait "$second"
  expect_equal "$(without_progress < "$BATS_TEST_TMPDIR/second")" "hello from the image"
  run -0 alice srun -w n1 berth verify
  expect_no_leftovers
  # Made of it when it was not here, it starts from the store.
  forget_requests
  run -0 named cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(grep -c GET "$folder/log" || true)" 0
  remove_named
}

@test "early: a named container starts again before its image is here, and tells of reads that wait" {
  hold 1
  run -0 contained --container-name=early sh -c 'echo kept > /srv/kept'
  [ "$(partial)" ]
  forget_requests
  named cat /srv/kept /srv/hello > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  job=$!
  wait_until 60 grep -q 'n1: a read of the image has waited' "$BATS_TEST_TMPDIR/out"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" $'kept\nhello from the image'
  expect_equal "$(last_event start .from)" '"pull"'
  remove_named
}

@test "early: a named container whose start waits for its image is told, and is gone when the step is cancelled" {
  hold 0
  hold 1
  step --container-name=early cat /srv/hello
  wait_until 60 grep -q 'a read of the image has waited 1 s' "$BATS_TEST_TMPDIR/out"
  cancel_everything
  wait "$job" || true
  within 30 no_jobs
  expect_no_leftovers
  expect_nodes_up
  expect_equal "$(alice srun -w n1 berth ps --json | jq '.containers | length')" 0
}

@test "early: berth run --name starts before its image is here, and leaves the rest to who is still in it" {
  hold 1
  local store
  store=$(in_home 'mktemp -d ~/early.XXXXXX')
  in_home "rm -f first gone; cat > both.sh" << END
export BERTH_STORE_PATH=$store
berth run --name early --mount-home $image sh -c 'cd && until [ -e first ]; do sleep 0.1; done' &
until berth exec early true 2> /dev/null; do sleep 0.1; done
berth exec early cat /srv/hello &
wait %1 && touch gone
wait %2
END
  forget_requests
  alice srun -w n1 bash both.sh > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  job=$!
  wait_until 60 asked_for 1
  wait_until 60 a_reader_waits
  in_home "touch first"
  wait_until 60 in_home "test -e gone"
  rm "$held"
  wait "$job"
  expect_equal "$(told)" "hello from the image"
  remove_named
  in_home "rm -rf $store"
}

# The parts of a step of two nodes, whose tasks live until the file "go" is there.
together() {
  restore_site
  share_lines=('enabled = true')
  early_site
  in_home "rm -f go"
  forget_requests
  alice srun -N2 --container-image="$image" --container-mount-home sh -c \
    'cat /srv/hello && cd && until [ -e go ]; do sleep 0.1; done' > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  job=$!
}
partials() { root bash -c "ls -d $state/nodes/n[12]/store/*/partial/*" 2> /dev/null; }
both_are_coming() { [ "$(partials | wc -l)" = 2 ]; }
all_is_here() { [ -z "$(partials)" ]; }
pull_events() { jq -s "[.[]|select(.kind==\"pull\")]|$1" "$folder/alice.jsonl"; }
one_has_pulled() { [ "$(pull_events length)" = 1 ]; }
both_have_pulled() { [ "$(pull_events length)" = 2 ]; }

@test "early: the nodes of a step start at once and ask the registry for each part once" {
  together
  wait_until 60 both_have_pulled
  in_home "touch go"
  wait "$job"
  expect_equal "$(told)" $'hello from the image\nhello from the image'
  expect_equal "$(jq -s '[.[]|select(.kind=="start")|.from]' -c "$folder/alice.jsonl")" '["pull","pull"]'
  all_is_here
  # What both have fetched came from the registry once, and once from the other node.
  expect_equal "$(pull_events '([.[].bytes]|add) == 2 * ([.[].peer_bytes]|add)')" true
  expect_equal "$(grep -c 'GET .*/manifests/.*[.]berth ' "$folder/log")" 1
  run -0 alice srun -N2 berth verify
}

@test "early: what a node was to bring that has gone comes from the registry" {
  hold 1
  together
  wait_until 60 asked_for 1
  wait_until 60 a_task_lives
  kill_9_all "for pid in \$(pgrep -x berth-pull); do
    [[ ! /proc/\$pid/root/var/lib/berth -ef $state/nodes/n2/store ]] || echo \$pid; done"
  rm "$held"
  wait_until 60 one_has_pulled
  in_home "touch go"
  wait "$job" || true
  run cat "$BATS_TEST_TMPDIR/out"
  expect_output_like "hello from the image"
  expect_nodes_up
}
