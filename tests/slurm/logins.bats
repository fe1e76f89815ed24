#!/usr/bin/env bats
# Logins for registries, from where Enroot and docker keep them, at a registry that asks for one.
load helper

private=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 998))
# tests/registry/challenging.py, without TLS and with it.
asking=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 997))
asking_tls=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 996))

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
  # In the folder that the box sees.
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=berth-test \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$state/asking.key" -out "$state/asking.pem" 2> /dev/null
  chmod 644 "$state/asking.pem"
  start_asking plain "${asking##*:}"
  start_asking tls "${asking_tls##*:}" "$state/asking.pem" "$state/asking.key"
  wait_until 60 curl -s -o /dev/null "http://$private/v2/"
  wait_until 60 curl -s -o /dev/null "http://$asking/v2/"
  wait_until 60 curl -sk -o /dev/null "https://$asking_tls/v2/"
}

# start_asking NAME PORT [CERTIFICATE KEY]
start_asking() {
  python3 -B "$repo/tests/registry/challenging.py" "${@:2}" 3>&- >> "$BATS_FILE_TMPDIR/asking.$1.log" 2> /dev/null &
  echo $! > "$BATS_FILE_TMPDIR/asking.$1.pid"
}

teardown_file() {
  kill "$(cat "$BATS_FILE_TMPDIR/registry.pid")" "$(cat "$BATS_FILE_TMPDIR/asking.plain.pid")" \
    "$(cat "$BATS_FILE_TMPDIR/asking.tls.pid")"
  rm -f "$state/asking.key" "$state/asking.pem"
}

# Whose logins have come since forget_requests to the registry that asks, and how often: users [plain|tls]. It writes a
# request's line before it answers.
users() {
  awk 'NF == 3 && $3 != "-" { count[$3]++ } END { for (user in count) print user "=" count[user] }' \
    "$BATS_FILE_TMPDIR/asking.${1:-plain}.log" | sort
}
forget_requests() { truncate -s 0 "$BATS_FILE_TMPDIR/asking.plain.log" "$BATS_FILE_TMPDIR/asking.tls.log"; }

teardown() {
  restore_site
  cancel_after_failure
  in_home 'chmod -R u+rw homes 2> /dev/null; rm -rf .config/enroot/.credentials .enroot .docker homes'
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
  credentials .config/enroot '$(printenv AWS_SESSION_TOKEN)'
  run pulls env AWS_SESSION_TOKEN=s3cret
  expect_refused 'registry.auth_commands = true'
  with_site_lines '[registry]' 'auth_commands = true'
  run -0 pulls env AWS_SESSION_TOKEN=s3cret
  expect_equal "$output" "only in the image"
}

@test "row 6: a password that is a \$NAME or \${NAME} is that variable of the job, without a shell" {
  # shellcheck disable=SC2016
  for password in '$ENROOT_PASSWORD' '${ENROOT_PASSWORD}'; do
    credentials .config/enroot "$password"
    run pulls env
    expect_refused 'is not set here'
    forget_images
    run -0 pulls env ENROOT_PASSWORD=s3cret
    expect_equal "$output" "only in the image"
    run pulls env ENROOT_PASSWORD=wrong
    expect_refused 'sent the login of alice'
  done
  # The nodes' program for pulls has not the job's environment.
  with_site_lines '[slurm]' 'resolve_tags = "nodes"'
  forget_images
  run -0 pulls env ENROOT_PASSWORD=s3cret
  expect_equal "$output" "only in the image"
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

# A home in the folder homes/NAME of alice's: home NAME FILE TEXT, with HOST for the registry's. A text that begins with
# @ is a command that makes the FILE named by $f. FILE is one of auth.json, run/containers/auth.json,
# config/containers/auth.json, docker/config.json and enroot/.credentials.
home() {
  in_home "umask 77; mkdir -p homes/$1/{run/containers,config/containers,docker,enroot}"
  if [[ $3 == @* ]]; then
    in_home "umask 77; f=homes/$1/$2; ${3#@}"
  else
    in_home "umask 77; cat > homes/$1/$2" <<< "${3//HOST/$asking}"
  fi
}

# The variables by which a shell of alice's has the folder homes/$1 as a home.
# shellcheck disable=SC2016
in_that_home='h=$HOME/homes/$1; export REGISTRY_AUTH_FILE=$h/auth.json XDG_RUNTIME_DIR=$h/run XDG_CONFIG_HOME=$h/config
  export DOCKER_CONFIG=$h/docker ENROOT_CONFIG_PATH=$h/enroot BERTH_STORE_PULL=always'

# from_home NAME IMAGE [SRUN_OPTION...]
from_home() {
  # shellcheck disable=SC2016
  alice bash -c "$in_that_home"'; image=$2; shift 2; exec srun "$@" --container-image="$image" /bare' - "$@"
}

# docker's file with a login for a host: auth_of HOST USER
auth_of() { printf '{"auths":{"%s":{"auth":"%s"}}}' "$1" "$(printf '%s:pw-%s' "$2" "$2" | base64)"; }

@test "40 homes with what files of logins can be: a public image starts from each, with a warning at most" {
  local number=0 file text
  root bash -c 'printf "#!/bin/sh\necho broken; exit 3\n" > /usr/local/bin/docker-credential-box
    chmod 755 /usr/local/bin/docker-credential-box'
  while IFS='|' read -r file text; do
    home "h$((++number))" "$file" "$text"
  done <<END
docker/config.json|{"auths":{},"credsStore":"desktop"}
docker/config.json|{"auths":{"HOST":{}},"credsStore":"desktop"}
docker/config.json|{"credHelpers":{"HOST":"gone"}}
docker/config.json|{"credHelpers":{"HOST":"../box"}}
docker/config.json|{"credHelpers":{"HOST":5}}
docker/config.json|{"credsStore":"box"}
docker/config.json|
docker/config.json|@: > \$f
docker/config.json|@mkdir \$f
docker/config.json|@mkfifo \$f
docker/config.json|@ln -s config.json \$f
docker/config.json|@ln -s /nowhere \$f
docker/config.json|@echo '{}' > \$f; chmod 0 \$f
docker/config.json|@echo '{"auths":{}}' > \$f; chmod 644 \$f
docker/config.json|{"auths":
docker/config.json|[]
docker/config.json|{"auths":[]}
docker/config.json|{"auths":{"other.example":{"auth":"!"}}}
docker/config.json|{"auths":{"HOST":{"auth":"!"}}}
docker/config.json|{"auths":{"HOST":"x"}}
docker/config.json|$(auth_of HOST old1)
docker/config.json|$(auth_of other.example other)
docker/config.json|$(auth_of 127.0.0.1 other)
docker/config.json|$(auth_of 127.0.0.1:1 other)
auth.json|
auth.json|@mkdir \$f
auth.json|$(auth_of HOST old2)
run/containers/auth.json|{"credHelpers":{"HOST":"gone"}}
run/containers/auth.json|$(auth_of HOST old3)
config/containers/auth.json|not JSON
config/containers/auth.json|$(auth_of HOST old4)
enroot/.credentials|
enroot/.credentials|machine HOST login old5 password pw-old5
enroot/.credentials|machine HOST login other
enroot/.credentials|machine HOST login other password \$(echo pw-other)
enroot/.credentials|machine HOST login other password \$NOT_SET
enroot/.credentials|machine 127.0.0.1 login other password pw-other
enroot/.credentials|default login other password pw-other
enroot/.credentials|@mkdir \$f
enroot/.credentials|@echo 'machine x login y password z' > \$f; chmod 0 \$f
END
  expect_equal "$number" 40
  forget_requests
  # shellcheck disable=SC2016
  run -0 alice bash -c 'export in_that_home=$1
    seq 40 | sed s/^/h/ | xargs -P 4 -I{} bash -c '\''eval "$in_that_home"
      srun --container-image="$2" /bare > "$h/out" 2>&1; echo $? > "$h/code"'\'' - {} "$2"' - "$in_that_home" \
    "$asking/public:1"
  local failed="" lines code
  for number in {1..40}; do
    lines=$(without_progress < "$state/home/alice/homes/h$number/out")
    code=$(cat "$state/home/alice/homes/h$number/code")
    if [[ $code != 0 || $(grep -cx bare <<< "$lines") != 1 || $(grep -c 'berth: ' <<< "$lines") -gt 1 ||
      $lines == *pw-* ]]; then
      failed+="h$number: $code: $lines"$'\n'
    fi
  done
  [[ -z $failed ]] || fail "$failed"
  # No login of another host's.
  expect_equal "$(users | sed 's/=.*//' | xargs)" "old1 old2 old3 old4 old5"
  expect_nodes_up
}

@test "a credential program that is not there: a warning, the next file's login, and the image of the store" {
  home desktop docker/config.json '{"auths":{},"credsStore":"desktop"}'
  for _ in 1 2; do
    run -0 from_home desktop "$asking/public:1" -w n1
    expect_one_error_line
    expect_output_like 'warning: logins for .*docker-credential-desktop of .*/config.json \(there is no such program'
    expect_output_like bare
  done
  run from_home desktop "$asking/basic:1" -w n1
  expect_failure
  expect_one_error_line
  expect_output_like 'sent no login, there is none in .*docker-credential-desktop'
  in_home 'umask 77; cat > homes/desktop/enroot/.credentials' <<< "machine $asking login good password pw-good"
  for name in basic private; do
    run -0 from_home desktop "$asking/$name:1" -w n1
    expect_output_like bare
  done
}

@test "a login that has ended is sent once in a step, by srun, and the next file's counts" {
  home ended docker/config.json "$(auth_of HOST old)"
  in_home 'umask 77; cat > homes/ended/enroot/.credentials' <<< "machine $asking login good password pw-good"
  # Where srun has no answer within five seconds, the nodes ask: a busy machine has three tries.
  for name in basic private; do
    for _ in 1 2 3; do
      forget_requests
      run -0 from_home ended "$asking/$name:1" -N 2
      expect_equal "$(grep -c '^bare$' <<< "$output")" 2
      ! users | grep -qx old=1 || break
    done
    users | grep -qx old=1 || fail "$(users)"
  done
  # All of them: the error says what was tried, and no node tries again.
  home ended auth.json "$(auth_of HOST first)"
  for _ in 1 2 3; do
    forget_requests
    run from_home ended "$asking/basic:1" -N 2
    expect_failure
    expect_output_like 'sent the login of first from .*/auth.json, then that of old from .*/docker/config.json'
    [[ $(users | xargs) != "first=1 old=1" ]] || break
  done
  expect_equal "$(users | xargs)" "first=1 old=1"
}

@test "Enroot's machine HOST is for HOST:PORT by TLS and Basic, in that file alone" {
  with_site_lines "[registry.\"$asking_tls\"]" "ca = \"$state/asking.pem\""
  home port enroot/.credentials 'machine 127.0.0.1 login good password pw-good'
  forget_requests
  run -0 from_home port "$asking_tls/basic:1" -w n1
  expect_output_like bare
  users tls | grep -q '^good=' || fail "$(users tls)"
  # Not to a token server, not without TLS.
  forget_requests
  for where in "$asking_tls/private:1" "$asking/basic:1" "$asking/private:1"; do
    run from_home port "$where" -w n1
    expect_failure
    expect_one_error_line
  done
  expect_equal "$(users tls)$(users)" ""
  # docker's files mean the host alone, as docker has it.
  in_home 'rm homes/port/enroot/.credentials'
  home port docker/config.json "$(auth_of 127.0.0.1 good)"
  run from_home port "$asking_tls/basic:1" -w n1
  expect_failure
  expect_equal "$(users tls)" ""
}

@test "berth login: a password that comes as soon as it is asked for is heard, and not shown" {
  run -0 python3 -B - "$repo/tests/documents" "$state" "$asking" <<'END'
import sys
folder, state, registry = sys.argv[1:]
sys.path.insert(0, folder)
from terminal import PROMPT, Terminal
shell = ["env", *(f"{name}={value}" for name, value in PROMPT.items()), "TERM=dumb", "bash", "--noediting", "-i"]
terminal = Terminal([f"{state}/lib/enter_box", "login", state, "alice", "", *shell], 60)
for _ in range(30):
    code, output = terminal.type(f"berth login --user good {registry}", [("Password of good for .*: $", "pw-good\n")])
    assert code == 0 and "logged in to" in output and "pw-good" not in output, output
terminal.close()
END
  alice rm -rf .docker
}
