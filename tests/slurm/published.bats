#!/usr/bin/env bats
# berth publish, and steps that fetch layers in the form in which they run (share.artifacts).
load helper

folder=$state/published

setup_file() {
  root bash -c "rm -rf $folder && mkdir -m 0755 $folder && cd $folder &&
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem &&
    openssl pkey -in key.pem -pubout -out key.pub && chmod 0644 *"
}

setup() {
  forget_images
  mark_log
}

teardown() {
  cancel_after_failure
  restore_site
  forget_images
}

# How often nodes asked for a layer that has to be converted.
converted_layers() {
  local layer sum=0
  for layer in $(layer_digests 12); do sum=$((sum + $(count_since GET "/v2/debian/blobs/$layer"))); done
  echo "$sum"
}

# How many signatures there are of what is published in the repository NAME: signatures NAME.
signatures() {
  local type=application/vnd.oci.image.manifest.v1+json digest
  digest=$(curl -sf -H "Accept: $type" "http://$registry/v2/$1/manifests/$(artifact_tag)" | sha256sum)
  curl -sf -H "Accept: $type" "http://$registry/v2/$1/manifests/sha256-${digest%% *}.sig" | jq '.layers | length'
}

# A site that trusts one key about what is in the repository NAME; images may be anybody's: trust NAME [LINE of share].
trust() {
  root tee "$folder/policy.json" > /dev/null <<END
{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"$registry/$1": [
  {"type": "sigstoreSigned", "keyPath": "$folder/key.pub", "signedIdentity": {"type": "matchRepository"}}]}}}
END
  root bash -c "install -m 0666 /dev/null $folder/alice.jsonl"
  with_site_lines '[share]' "artifacts = \"$registry/$1\"" "${@:2}" '[policy]' "signatures = \"$folder/policy.json\"" \
    '[events]' "log = \"$folder/%u.jsonl\""
}

# The layers of n1 that have still to be proved, as their diff_ids without "sha256:".
unproved() { root bash -c "ls $state/nodes/n1/store/*/unproved"; }
all_is_proved() {
  local left
  left=$(unproved) && [ -z "$left" ] && [ "$(published)" ]
}

# A start on signed layers of the repository NAME that lasts until CMD... succeeds: start_until NAME CMD...
start_until() {
  trust "$1"
  forget_images
  mark_log
  in_home "rm -f go; srun -w n1 --container-image=$image --container-mount-home sh -c \
    'cd && until [ -e go ]; do sleep 0.1; done'" 3>&- &
  # The proof leaves the CPUs to everybody else.
  wait_until 120 "${@:2}"
  in_home "touch go"
  wait "$!"
}

last_pull() { jq -s "last(.[]|select(.kind==\"pull\"))|$1" "$folder/alice.jsonl"; }
failures() { jq -rs '[.[]|select(.kind=="failure")|.error]|join("\n")' "$folder/alice.jsonl"; }
has_failed() { failures | grep -q "$1"; }

artifact_tag() { echo "$(manifest_digest 12 | tr : -).berth"; }

@test "published: layers that are beside the image are fetched as they are, and the files are the same" {
  run -0 alice berth publish "$image"
  expect_output_like "published $(manifest_digest 12): 3 layers in referrers"
  run -0 alice berth publish "$image"
  expect_output_like "was published $(manifest_digest 12)"
  # Where a registry has no referrers API, as this one, other tools find it in a list.
  run -0 bash -c "curl -sf -H 'Accept: application/vnd.oci.image.index.v1+json' \
    http://$registry/v2/debian/manifests/$(manifest_digest 12 | tr : -) |
    jq -r '[.manifests[]|select(.artifactType==\"application/vnd.berth.image.v1\")]|length'"
  expect_equal "$output" 1
  # shellcheck disable=SC2016
  script='find / -xdev \( -type f -o -type l \) -not -path "/proc/*" -not -path "/etc/*" -printf "%p %m %s %l\n" | sort
    find /usr /srv -xdev -type f -exec sha256sum {} + | sort'
  run -0 contained sh -c "$script"
  local wanted=$output
  forget_images
  with_site_lines '[share]' 'artifacts = "referrers"'
  mark_log
  run -0 contained sh -c "$script"
  expect_equal "$output" "$wanted"
  expect_equal "$(converted_layers)" 0
  expect_equal "$(count_since GET "/v2/debian/manifests/$(artifact_tag)")" 1
  run -0 alice srun -w n1 berth verify
}

@test "published: a repository of the site's, and an image that nobody has published" {
  run -0 alice berth publish --to "$registry/site/layers" "$image"
  with_site_lines '[share]' "artifacts = \"$registry/site/layers\""
  forget_images
  mark_log
  run -0 contained cat /srv/hello
  expect_equal "$(converted_layers)" 0
  # A user's variable counts in a step too.
  restore_site
  forget_images
  mark_log
  run -0 in_home "BERTH_SHARE_ARTIFACTS=$registry/site/layers srun -w n1 --container-image=$image true"
  expect_equal "$(converted_layers)" 0
  restore_site
  with_site_lines '[share]' "artifacts = \"$registry/site/nothing\""
  forget_images
  mark_log
  run -0 --separate-stderr contained cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(converted_layers)" "$(layer_digests 12 | wc -l)"
}

@test "published: with share.enabled one node fetches each layer, and proves it, for both" {
  run -0 alice berth publish --quiet "$image"
  with_site_lines '[share]' 'enabled = true' 'artifacts = "referrers"'
  forget_images
  mark_log
  # shellcheck disable=SC2016
  run -0 in_home "rm -f at.*; srun -N2 --container-image=$image --container-mount-home sh -c \
    'cd && : > at.\$SLURM_NODEID; until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done'"
  expect_equal "$(converted_layers)" 0
  expect_equal "$(log_since GET /v2/debian/blobs/ | grep -o 'blobs/sha256:[0-9a-f]*' | sort | uniq -d)" ""
  for node in n1 n2; do run -0 alice srun -w "$node" berth verify; done
}

@test "published: berth mirror brings what it pulls" {
  with_site_lines '[share]' "artifacts = \"$registry/site/mirrored\""
  in_home "echo $registry/debian:12 > images.list"
  run -0 alice berth mirror --publish --sign "$folder/key.pem" images.list
  expect_equal "$output" "$registry/debian:12 $(manifest_digest 12)"
  forget_images
  mark_log
  run -0 contained true
  expect_equal "$(converted_layers)" 0
  expect_equal "$(count_since GET "/v2/site/mirrored/manifests/$(artifact_tag)")" 1
  [ "$(signatures site/mirrored)" -ge 1 ]
}

@test "published: a step starts on layers that the site's key has signed, which are proved while it runs" {
  run -0 alice berth publish --to "$registry/site/signed" --sign "$folder/key.pem" "$image"
  # Once more makes no second signature.
  local before
  before=$(signatures site/signed)
  run -0 alice berth publish --to "$registry/site/signed" --sign "$folder/key.pem" "$image"
  expect_equal "$(signatures site/signed)" "$before"
  start_until site/signed all_is_proved
  expect_equal "$(converted_layers)" 0
  expect_equal "$(failures)" ""
  expect_equal "$(last_pull '.bytes > 0 and .published_bytes == .bytes and .refused == null')" true
  run -0 contained cat /srv/hello
  expect_equal "$output" "hello from the image"
}

@test "published: signed layers that are not the image's go from the store, and the site is told" {
  # What is there already would not be published again.
  local wrong=site/wrong-$$
  run -0 alice berth publish --to "$registry/$wrong" "$image"
  # Each of two layers as the other one, signed by the site's key.
  local type=application/vnd.oci.image.manifest.v1+json
  place=http://$registry/v2/$wrong/manifests/$(artifact_tag)
  curl -sf -H "Accept: $type" "$place" | jq -c '[.layers[].annotations] as $old |
    .layers[0].annotations = $old[2] | .layers[2].annotations = $old[0]' |
    curl -sf -X PUT -H "Content-Type: $type" --data-binary @- "$place"
  run -0 alice berth sign --key "$folder/key.pem" "$registry/$wrong:$(artifact_tag)"
  start_until "$wrong" has_failed "has run on its publisher's signature and is not what the image has"
  expect_equal "$(converted_layers)" 0
  wait_until 120 has_failed "removed from the store, the next start converts it"
  mark_log
  run -0 --separate-stderr contained cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(converted_layers)" 2
  expect_equal "$(last_pull '.published_bytes == 0 and (.refused | contains("is converted here"))')" true
  run -0 alice srun -w n1 berth verify
}

@test "published: nodes that share prove signed layers before they send them" {
  run -0 alice berth publish --to "$registry/site/signed" --sign "$folder/key.pem" "$image"
  trust site/signed 'enabled = true'
  forget_images
  mark_log
  # shellcheck disable=SC2016
  run -0 in_home "rm -f at.*; srun -N2 --container-image=$image --container-mount-home sh -c \
    'cd && : > at.\$SLURM_NODEID; until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done'"
  expect_equal "$(converted_layers)" 0
  expect_equal "$(unproved)" ""
}

# What is at a tag of the repository NAME; fails where nothing is: at_tag NAME TAG.
at_tag() {
  curl -sfI -H 'Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json' \
    "http://$registry/v2/$1/manifests/$2" | tr -d '\r' | sed -n 's/^docker-content-digest: //Ip' | grep .
}

@test "published: what belongs to images that have gone is removed, and nothing else" {
  local old=team/old-$$ layers=site/pruned-$$ gone list
  skopeo copy -q --src-tls-verify=false --dest-tls-verify=false "docker://$image" "docker://$registry/$old:1"
  gone=$(at_tag "$old" 1)
  run -0 alice berth publish --quiet --to "$registry/$layers" "$image"
  # The same manifest, which is published there already; the artifact is then one of this repository's.
  run -0 alice berth publish --force --to "$registry/$layers" --sign "$folder/key.pem" "$registry/$old:1"
  expect_output_like "^published $gone"
  # Other tests take images from this store by their one name.
  alice berth rmi "$registry/$old:1"
  run -0 alice berth publish --prune --to "$registry/$layers"
  expect_equal "$output" "0 removed, 1 kept"
  curl -sf -X DELETE "http://$registry/v2/$old/manifests/$gone"
  run -0 alice berth publish --prune --dry-run --to "$registry/$layers"
  expect_output_like "would be removed: ${gone/:/-}.berth"
  list=$(at_tag "$layers" "${gone/:/-}")
  [ "$list" ]
  run -0 at_tag "$layers" "${gone/:/-}.berth"
  local artifact=$output
  run -0 at_tag "$layers" "${artifact/:/-}.sig"
  run -0 alice berth publish --prune --to "$registry/$layers"
  expect_output_like "^removed: ${gone/:/-}.berth
1 removed, 0 kept$"
  for tag in "${gone/:/-}.berth" "${gone/:/-}" "${artifact/:/-}.sig"; do
    run at_tag "$layers" "$tag"
    expect_failure
  done
}

# Another image of the same layers, whose config differs: IMAGE TAG.
push_sibling() {
  local api=http://$registry/v2/debian type=application/vnd.oci.image.manifest.v1+json manifest config place
  manifest=$(curl -sf -H "Accept: $type" "$api/manifests/12")
  config=$(curl -sf "$api/blobs/$(jq -r .config.digest <<< "$manifest")" | jq -c '.config.Env += ["SIBLING=1"]')
  local digest
  digest=sha256:$(printf %s "$config" | sha256sum | cut -d ' ' -f 1)
  place=$(curl -sfi -X POST "$api/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //Ip')
  printf %s "$config" | curl -sf -X PUT -H 'Content-Type: application/octet-stream' --data-binary @- \
    "$place$([[ $place == *\?* ]] && echo '&' || echo '?')digest=$digest"
  jq -c ".config.digest = \"$digest\" | .config.size = ${#config}" <<< "$manifest" |
    curl -sf -X PUT -H "Content-Type: $type" --data-binary @- "$api/manifests/$1"
}

@test "published: a layer that has still to be proved is not sent to other nodes" {
  push_sibling sibling
  run -0 contained true
  # As a step leaves it that ended before the proof did.
  root bash -c "cd $state/nodes/n1/store/*/unproved && jq -r '.rootfs.diff_ids[]' ../images/*/config.json |
    cut -d : -f 2 | xargs touch"
  with_site_lines '[share]' 'enabled = true'
  mark_log
  # shellcheck disable=SC2016
  run -0 in_home "rm -f at.*; srun -N2 --container-image=$registry/debian:sibling --container-mount-home sh -c \
    'cd && : > at.\$SLURM_NODEID; until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done; echo \$SIBLING'"
  expect_equal "$output" $'1\n1'
  expect_equal "$(converted_layers)" "$(layer_digests 12 | wc -l)"
}
