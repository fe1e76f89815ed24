#!/usr/bin/env bats
# policy.signatures in steps: an image that is not signed, berth sign, starts without the registry, and changes of the
# policy.
load helper

folder=$state/signatures

setup_file() {
  root bash -c "rm -rf $folder && mkdir -m 0755 $folder && cd $folder &&
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem &&
    openssl pkey -in key.pem -pubout -out key.pub &&
    openssl genpkey -algorithm ED25519 -out other.pem && openssl pkey -in other.pem -pubout -out other.pub &&
    chmod 0644 *"
}

setup() {
  forget_images
  remove_signatures 2> /dev/null || true
  want key
  with_site_lines '[policy]' "signatures = \"$folder/policy.json\"" '[events]' "log = \"$folder/%u.jsonl\""
  root bash -c "install -m 0666 /dev/null $folder/alice.jsonl"
}

teardown() {
  restore_site
  forget_images
}

# want KEY: images of the registry need that key's signature, and image files are refused.
want() {
  root tee "$folder/policy.json" > /dev/null <<END
{"default": [{"type": "reject"}], "transports": {"docker": {"$registry": [
  {"type": "sigstoreSigned", "keyPath": "$folder/$1.pub", "signedIdentity": {"type": "matchRepository"}}]}}}
END
}

@test "signatures: a step without one is refused in one line, and one with it runs" {
  run contained true
  expect_failure
  expect_one_error_line
  expect_output_like "image $registry/debian:12.*policy.signatures: $folder/policy.json: \
transports.docker.\"$registry\" wants a sigstore signature by $folder/key.pub for matchRepository, and"
  expect_equal "$(published)" ""
  expect_nodes_up
  run -0 alice berth sign --key "$folder/key.pem" "$image"
  expect_output_like "signed $(manifest_digest 12)"
  run -0 contained true
  run -0 alice srun -w n1 berth inspect "$image"
  expect_output_like "signature   sha256:[0-9a-f]{64} \($folder/key.pub\) for $registry/debian:12, as $image by trans"
  wait_until 5 grep -q '"kind":"start"' "$folder/alice.jsonl"
  expect_equal "$(jq -r 'select(.kind=="start").rule' "$folder/alice.jsonl")" "transports.docker.\"$registry\""
  run -0 bash -c "jq -r 'select(.kind==\"start\").signer' $folder/alice.jsonl | grep -c '^sha256:'"
}

# What is attached to the image in the registry, without its signatures.
remove_signatures() {
  local place type=application/vnd.oci.image.manifest.v1+json
  place="http://$registry/v2/debian/manifests/$(manifest_digest 12 | tr : -).sig"
  curl -sf -H "Accept: $type" "$place" | jq -c '.layers = []' |
    curl -sf -X PUT -H "Content-Type: $type" --data-binary @- "$place"
}

@test "signatures: a start goes by the store's record alone" {
  run -0 alice berth sign --quiet --key "$folder/key.pem" "$image"
  run -0 contained true
  remove_signatures
  root bash -c "rm $state/nodes/n1/store/*/images/*/signatures.json"
  run -0 in_home "BERTH_STORE_PULL=missing srun -w n1 --container-image=$image true"
  root bash -c "rm $state/nodes/n1/store/*/images/*/signatures"
  run in_home "BERTH_STORE_PULL=missing srun -w n1 --container-image=$image true"
  expect_failure
  expect_one_error_line
  expect_output_like "and the image has none"
}

@test "signatures: a policy that changes is applied to what is in the store" {
  run -0 alice berth sign --quiet --key "$folder/key.pem" "$image"
  run -0 contained true
  missing="BERTH_STORE_PULL=missing srun -w n1 --container-image=$image"
  want other
  run in_home "$missing true"
  expect_failure
  expect_one_error_line
  expect_output_like "is by another key"
  run -0 alice berth sign --quiet --key "$folder/other.pem" "$image"
  run -0 in_home "$missing true"
  want key
  remove_signatures
  run -0 in_home "$missing true"
}

two_starts_with_signers() {
  jq -es '[.[]|select(.kind=="start" and (.signer // "") != "")]|length == 2' "$folder/alice.jsonl"
}

@test "signatures: of two nodes that share, one asks the registry for them, and both check them" {
  run -0 alice berth sign --quiet --key "$folder/key.pem" "$image"
  with_site_lines '[share]' 'enabled = true'
  mark_log
  # shellcheck disable=SC2016
  run -0 in_home "rm -f at.*; srun -N2 --container-image=$image --container-mount-home sh -c \
    'cd && : > at.\$SLURM_NODEID; until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done'"
  expect_equal "$(count_since GET '/v2/debian/manifests/sha256-[0-9a-f]*.sig')" 1
  wait_until 5 two_starts_with_signers
  want other
  forget_images
  run alice srun -N2 --container-image="$image" true
  expect_failure
  expect_output_like "is by another key"
}

@test "signatures: image files fall under the scopes of dir" {
  root bash -c "rm -f $folder/policy.json"
  root bash -c "echo '{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}' > $folder/policy.json"
  run -0 in_home "berth import --force -o signed.sqsh $image"
  run -0 in_home "srun -w n1 --container-image=./signed.sqsh true"
  want key
  run in_home "srun -w n1 --container-image=./signed.sqsh true"
  expect_failure
  expect_one_error_line
  expect_output_like "image /home/alice/signed.sqsh: .*policy.signatures: .*: default refuses such images"
}
