#!/usr/bin/env bats
# What a site is told of starts, pulls and failures: a line each, and counters.
load helper

events=$state/events

# Fresh for each test, where every user may write, as the site file of a real node would have it. Both nodes have the
# image: what was there is no pull.
setup() {
  alice srun -N2 --container-image="$image" true
  root bash -c \
    "rm -rf $events && mkdir -m 1777 -p $events/log $events/counters && chmod 1777 $events/log $events/counters"
  with_site_lines '[events]' "log = \"$events/log/%u.jsonl\"" "counters = \"$events/counters\""
}

teardown() {
  cancel_after_failure
  restore_site
}

# The events of alice that jq's filter selects, as compact JSON.
told() {
  jq -c "$1" "$events/log/alice.jsonl"
}

# Steps are told of when their tasks have begun, which srun's end may overtake.
expect_events() {
  wait_until 5 eval "(( \$(wc -l < $events/log/alice.jsonl) >= $1 ))"
  expect_equal "$(wc -l < "$events/log/alice.jsonl")" "$1"
}

# The value of a series of `berth stats --prometheus`, as root.
series() {
  root berth stats --prometheus | awk -v series="$1 " 'index($0, series) == 1 { print $NF }'
}

@test "a start from the store: one line with its job, image, digest and phases, and one count" {
  contained true
  expect_events 1
  expect_equal "$(told '[.kind,.from,.user,.node,.bytes]')" '["start","store","alice","n1",0]'
  expect_equal "$(told .digest)" "\"$(manifest_digest 12)\""
  expect_equal "$(told .image)" "\"$image\""
  [[ $(told .job) =~ ^\"[0-9]+\.0\"$ ]]
  expect_equal "$(told '[.phases|has("image","plan","namespaces","overlay","edits")]|all')" true
  expect_equal "$(told '([.phases[]]|add) <= .us + 1000 and .us > 0')" true
  expect_equal "$(series 'berth_starts_total{from="store"}')" 1
  expect_equal "$(series 'berth_start_seconds_count')" 1
}

@test "a step of two nodes with four tasks is a start on each node" {
  alice srun -N2 -n4 --container-image="$image" true
  expect_events 2
  expect_equal "$(told .node | sort | xargs)" "n1 n2"
}

@test "a pull is an event of its own with its bytes, and the start says where its image came from" {
  forget_images
  contained true
  expect_events 2
  expect_equal "$(told .kind | xargs)" "pull start"
  expect_equal "$(told .from | tail -1)" '"pull"'
  bytes=$(curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$registry/v2/debian/manifests/12" |
    jq '[.layers[].size]|add')
  expect_equal "$(told .bytes | xargs)" "$bytes $bytes"
  expect_equal "$(told 'select(.kind=="pull")|[.phases|has("pulling","merging")]|all')" true
  expect_equal "$(series berth_pulls_total)" 1
  expect_equal "$(series berth_pull_bytes_total)" "$bytes"
  expect_equal "$(series 'berth_starts_total{from="pull"}')" 1
}

@test "failures are counted by their cause, each once" {
  run alice srun -w n1 --container-image="$registry/debian:none" true
  expect_failure
  run alice env BERTH_SLURM_RESOLVE_TAGS=nodes srun -w n1 --container-image=127.0.0.1:1/a:1 true
  expect_failure
  run alice srun -w n1 --container-image="$image" --container-mounts=/nowhere:/a true
  expect_failure
  run alice srun -w n1 --container-image=/nowhere.sqsh true
  expect_failure
  expect_events 4
  expect_equal "$(told '[.kind,.of,.cause]' | sort | uniq -c | awk '{print $1 $2}' | xargs)" \
    '1[failure,start,container] 1[failure,start,image] 1[failure,start,network] 1[failure,start,not_found]'
  told .error | grep -q 'not found by the registry'
  for cause in container image network not_found; do
    expect_equal "$(series "berth_failures_total{of=\"start\",cause=\"$cause\"}")" 1
  done
  expect_equal "$(series 'berth_start_seconds_count')" 0
}

@test "a named container: the first step creates it, the next starts it again, one beside joins it" {
  alice srun -w n1 --container-image="$image" --container-name=told true
  alice srun -w n1 --container-name=told bash -c "srun --version > /dev/null 2>&1; sleep 3" &
  sleep 1.5
  alice srun -w n1 --overlap --container-name=told true
  wait
  expect_events 3
  expect_equal "$(told '[.container,.from]' | sort | xargs)" "[told,container] [told,store] [told,store]"
  started='["image","plan","helper","namespaces","sources","upper","server","overlay","edits","enter"]'
  expect_equal "$(told '.phases|keys_unsorted' | sort | uniq -c | sed 's/^ *//')" $'2 '"$started"$'\n1 ["join"]'
  alice srun -w n1 berth rm told
}

@test "outside of a step: berth run and berth pull tell as well" {
  alice berth pull --quiet "$image"
  alice berth rmi "$image"
  root rm "$events/log/alice.jsonl"
  alice berth pull --quiet "$image"
  alice berth run "$image" true
  run alice berth pull "$registry/debian:none"
  expect_failure
  expect_events 3
  expect_equal "$(told .kind | xargs)" "pull start failure"
  expect_equal "$(told 'select(.kind=="failure")|[.of,.cause]')" '["pull","not_found"]'
  expect_equal "$(series 'berth_failures_total{of="pull",cause="not_found"}')" 1
}

@test "an import is an event of its own beside that of its pull, and counts once" {
  alice berth pull --quiet "$image"
  forget_images_at_login
  root rm "$events/log/alice.jsonl"
  alice berth import --quiet -o "told.sqsh" "$image"
  alice berth import --quiet --force -o "told.sqsh" "$image"
  run alice berth import --quiet -o "told.sqsh" "$image"
  expect_failure
  expect_events 4
  expect_equal "$(told .kind | xargs)" "pull import import failure"
  expect_equal "$(told 'select(.kind=="import")|.file' | sort -u)" '"told.sqsh"'
  expect_equal "$(told 'select(.kind=="import")|.phases|has("merging","writing","saving")|tostring' | sort -u)" '"true"'
  expect_equal "$(told 'select(.kind=="import")|.bytes>0' | xargs)" "true false"
  expect_equal "$(told 'select(.kind=="failure")|.of')" '"import"'
  expect_equal "$(series berth_imports_total)" 2
  expect_equal "$(series 'berth_import_seconds_count')" 2
  alice rm -f told.sqsh
}

@test "root sums what each user counted; a user sees his own; what a user makes of his file is refused" {
  contained true
  bob srun -w n1 --container-image="$image" true
  bob srun -w n1 --container-image="$image" true
  wait_until 5 eval '(( $('"$box"' run -- berth stats --json | jq "[.starts[]]|add") == 3 ))'
  expect_equal "$(alice berth stats --json | jq '[.starts[]]|add')" 1
  expect_equal "$(series 'berth_counter_files{state="summed"}')" 2
  bob bash -c "ln -sf /etc/shadow $events/counters/\$(id -u).counters"
  run -0 --separate-stderr root berth stats --json
  expect_equal "$(jq -c '[([.starts[]]|add),.files,.refused]' <<< "$output")" "[1,1,1]"
  [[ $stderr == *"reading the counters $(bob id -u).counters: "* ]]
}

@test "what cannot be written costs no start" {
  root bash -c "chmod 755 $events/log $events/counters"
  contained true
  expect_equal "$(ls "$events/log" "$events/counters" | grep -c alice || true)" 0
  run alice berth doctor
  expect_output_like 'events'
}

@test "syslog gets the line at its socket" {
  restore_site
  with_site_lines '[events]' 'log = "syslog"'
  cat > "$BATS_TEST_TMPDIR/listen.py" <<'END'
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind("/dev/log")
os.chmod("/dev/log", 0o666)
listener.settimeout(30)
open(sys.argv[1] + "/ready", "w").close()
open(sys.argv[1] + "/syslog", "wb").write(listener.recv(65536))
os.unlink("/dev/log")
END
  root python3 - "$events" < "$BATS_TEST_TMPDIR/listen.py" 3>&- &
  wait_until 10 test -e "$events/ready"
  alice berth run "$image" true
  wait $!
  [[ $(cat "$events/syslog") =~ ^\<14\>berth\[[0-9]+\]:\ \{\"time\".*\"kind\":\"start\" ]]
}

@test "berth report: a job's nodes and phases, and a page of all starts" {
  run -0 in_home "sbatch --parsable --wait -N2 -o out --wrap 'srun --container-image=$image true'"
  local job=${lines[0]}
  run -0 alice berth report --job "$job"
  expect_output_like "^step $job.0: $image on 2 nodes, all ready after "
  expect_output_like "longest: .* on n[12], "
  expect_output_like "  n1 +[0-9]"
  expect_output_like "  n2 +[0-9]"
  run -0 alice berth report --html starts.html
  run -0 in_home 'cat starts.html'
  expect_output_like '<svg [^>]*viewBox='
  # Root has all users' events.
  run -0 root berth report
  expect_output_like 'starts by hour'
}
