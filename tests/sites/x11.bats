#!/usr/bin/env bats
# PrologFlags=X11: srun --x11 in a container. The X server is a stand-in that says with which key it was asked.
load site

setup_file() { site_up --cgroup --with x11; }

setup() {
  display=$((RANDOM % 50 + 100))
  key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
}

teardown() { [[ -z ${server:-} ]] || kill "$server"; }

# Answers one connection with what it was sent, in hex.
start_server() {
  "$box" run -u alice -- python3 -c '
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 6000 + int(sys.argv[1])))
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"asked by " + connection.recv(4096) + b"\n")
    connection.close()
' "$display" > "$BATS_TEST_TMPDIR/server" 3>&- &
  server=$!
  wait_until 20 grep -q ready "$BATS_TEST_TMPDIR/server"
}

@test "x11: a program in a container finds the key of the display and reaches the server" {
  start_server
  run -0 in_home "export DISPLAY=localhost:$display; xauth -q add localhost:$display MIT-MAGIC-COOKIE-1 $key
    srun --x11 -w n1 --container-image=$image bash -c 'od -An -v -tx1 \"\$XAUTHORITY\" | tr -d \" \\n\"; echo
      number=\${DISPLAY#localhost:}; exec 5<> /dev/tcp/localhost/\$((6000 + \${number%.*})); echo hello >&5; cat <&5'"
  expect_output_like "$key"
  expect_output_like "asked by hello"
  expect_no_leftovers
  expect_nodes_up
}

@test "x11: the key is read-only inside, and that of another job is not there" {
  start_server
  run -0 in_home "export DISPLAY=localhost:$display; xauth -q add localhost:$display MIT-MAGIC-COOKIE-1 $key
    srun --x11 -w n1 --container-image=$image sh -c '(echo x >> \"\$XAUTHORITY\") 2>&1; ls -A \"\${XAUTHORITY%/*}\"'"
  expect_output_like "Read-only file system"
  expect_equal "$(grep -c '^.Xauthority-' <<< "$output")" 1
}
