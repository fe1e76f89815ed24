#!/usr/bin/env bats
# Logins for registries, from where Enroot and docker keep them, at a registry that asks for one.
load helper

private=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 998))

# The box's images once more, for those with a password.
setup_file() {
  python3 -W ignore -c 'import crypt, sys
for user, password in ("alice", "s3cret"), ("oauth2accesstoken", "ya29.token"):
    print(user + ":" + crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))' \
    > "$BATS_FILE_TMPDIR/passwords"
  cat > "$BATS_FILE_TMPDIR/registry.yml" <<END
version: 0.1
log:
  level: warn
storage:
  filesystem:
    rootdirectory: $state/registry
  maintenance:
    readonly:
      enabled: true
auth:
  htpasswd:
    realm: box
    path: $BATS_FILE_TMPDIR/passwords
http:
  addr: $private
END
  docker-registry serve "$BATS_FILE_TMPDIR/registry.yml" 3>&- > "$BATS_FILE_TMPDIR/registry.log" 2>&1 &
  echo $! > "$BATS_FILE_TMPDIR/registry.pid"
  wait_until 60 curl -s -o /dev/null "http://$private/v2/"
}

teardown_file() {
  kill "$(cat "$BATS_FILE_TMPDIR/registry.pid")"
}

teardown() {
  restore_site
  in_home 'rm -rf .config/enroot/.credentials .enroot .docker'
  root rm -f /usr/local/bin/docker-credential-box
}

# Enroot's file with this password of alice's: credentials FOLDER PASSWORD [USER]
credentials() {
  in_home "umask 77; mkdir -p $1; cat > $1/.credentials" <<< "machine $private login ${3:-alice} password $2"
}

pulls() { alice "$@" srun -w n1 --container-image="$private/debian:tar" only-in-image; }

expect_refused() {
  expect_failure
  expect_one_error_line
  expect_output_like "$1"
  # srun itself prints an argument that it refuses.
  ! grep berth: <<< "$output" | grep -E 's3cret|ya29' || fail "$output"
}

@test "a registry that asks for a login: a login of Enroot's, a wrong one, and none" {
  run pulls env
  expect_refused "$private"
  credentials .config/enroot wrong
  run pulls env
  expect_refused 'sent the login of alice from /home/alice/.config/enroot/.credentials'
  credentials .config/enroot s3cret
  run -0 pulls env
  expect_equal "$output" "only in the image"
}

@test "row 6: a credential program, a \$(command) and a \$VAR as a password have AWS_* of the job" {
  root bash -c 'cat > /usr/local/bin/docker-credential-box; chmod 755 /usr/local/bin/docker-credential-box' <<'END'
#!/bin/sh
echo "{\"Username\":\"alice\",\"Secret\":\"$AWS_SESSION_TOKEN\"}"
END
  in_home "mkdir .docker; echo '{\"credHelpers\":{\"$private\":\"box\"}}' > .docker/config.json"
  run -0 pulls env AWS_SESSION_TOKEN=s3cret
  expect_equal "$output" "only in the image"
  in_home 'rm -r .docker'
  # shellcheck disable=SC2016
  for password in '$(printenv AWS_SESSION_TOKEN)' '$AWS_SESSION_TOKEN'; do
    credentials .config/enroot "$password"
    restore_site
    run pulls env AWS_SESSION_TOKEN=s3cret
    expect_refused 'registry.auth_commands = true'
    with_site_lines '[registry]' 'auth_commands = true'
    run -0 pulls env AWS_SESSION_TOKEN=s3cret
    expect_equal "$output" "only in the image"
  done
}

@test "row 7: credentials in the folder that registry.auth_path names" {
  credentials .enroot s3cret
  run pulls env
  expect_failure
  with_site_lines '[registry]' 'auth_path = "~/.enroot"'
  run -0 pulls env
  expect_equal "$output" "only in the image"
}

@test "row 20: a token in the name of an image is refused, with what to do: the token in .credentials" {
  run alice srun -w n1 --container-image="oauth2accesstoken:ya29.token@$private#debian:tar" only-in-image
  expect_refused 'write oauth2accesstoken@ alone'
  credentials .config/enroot ya29.token oauth2accesstoken
  run -0 alice srun -w n1 --container-image="oauth2accesstoken@$private#debian:tar" only-in-image
  expect_equal "$output" "only in the image"
}
