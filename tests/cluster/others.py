#!/usr/bin/env python3
"""What else brings one file to N nodes, over the links of laboratory.py: Slurm's sbcast, BitTorrent (libtorrent), and a
curl on each node. For comparison with berth, whose figures laboratory.py prints.

    others.py sbcast|bittorrent|curl --nodes 8 --rate 50 --megabytes 128 [--json]

The file lies where the registry is, behind a link like the nodes' own. Times are ratios to S/B, as there. To be run as
root; needs the packages slurmctld, slurmd, slurm-client and munge, or python3-libtorrent. Exit code 2: the machine was
the bottleneck."""

import argparse
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

from namespaces import BRIDGE, Link, busy, in_namespaces, make_bridge, run

# The distribution's: libtorrent is in no other.
PYTHON = "/usr/bin/python3"

# TORRENT FOLDER OWN PEERS...: a node, or who has the file. Prints a line when it listens, begins when it has read one,
# and prints another one when the file is whole.
CLIENT = """
import sys, time, libtorrent
torrent, folder, own, *peers = sys.argv[1:]
session = libtorrent.session({"listen_interfaces": own + ":6881", "outgoing_interfaces": own, "enable_dht": False,
    "enable_lsd": False, "enable_upnp": False, "enable_natpmp": False, "allow_multiple_connections_per_ip": True,
    "enable_outgoing_utp": False, "enable_incoming_utp": False, "min_reconnect_time": 1, "connections_limit": 500,
    "alert_mask": 0})
print("listens", flush=True)
sys.stdin.readline()
info = libtorrent.torrent_info(torrent)
handle = session.add_torrent({"ti": info, "save_path": folder})
for peer in peers:
    handle.connect_peer((peer, 6881))
while not handle.status().is_seeding:
    time.sleep(0.05)
print("whole", flush=True)
time.sleep(1e6)
"""

SLURM_CONF = """
ClusterName=lab
SlurmctldHost={host}({bridge})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
# A block of 8 MB goes to all nodes in that time.
MessageTimeout=100
SlurmdParameters=config_overrides
PlugStackConfig=/dev/null
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["sbcast", "bittorrent", "curl"])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rate", type=float, default=50, help="Mbit/s of each link, in each direction")
    parser.add_argument("--megabytes", type=int, default=128, help="of the file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


def wait_for_all(started, processes, is_ready):
    """Seconds until each of them was ready."""
    times = [None] * len(processes)
    while None in times:
        for place, process in enumerate(processes):
            if times[place] is None and is_ready(process):
                times[place] = time.monotonic() - started
            elif times[place] is None and process.poll() not in (None, 0):
                raise SystemExit(f"node {place} has failed")
        time.sleep(0.02)
    return times


def by_curl(registry, links, source, folder):
    server = registry.start([PYTHON, "-m", "http.server", "--directory", source.parent, "--bind", registry.address,
                             "8080"], stderr=subprocess.DEVNULL)
    time.sleep(1)
    started = time.monotonic()
    url = f"http://{registry.address}:8080/{source.name}"
    processes = [link.start(["curl", "--silent", "--fail", "-o", folder / f"got{place}", url])
                 for place, link in enumerate(links)]
    times = wait_for_all(started, processes, lambda process: process.poll() == 0)
    server.kill()
    return times, [folder / f"got{place}" for place in range(len(links))]


def by_bittorrent(registry, links, source, folder):
    torrent = folder / "torrent"
    run(PYTHON, "-c", "import sys, libtorrent as l; s = l.file_storage(); l.add_files(s, sys.argv[1]); "
        "t = l.create_torrent(s); l.set_piece_hashes(t, sys.argv[2]); "
        "open(sys.argv[3], 'wb').write(l.bencode(t.generate()))", source, source.parent, torrent)

    def client(link, home, others):
        home.mkdir(exist_ok=True)
        process = link.start([PYTHON, "-c", CLIENT, torrent, home, link.address, *others], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        process.stdout.readline()
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def begin(process):
        process.stdin.write(b"\n")
        process.stdin.flush()

    seed = client(registry, source.parent, [])
    begin(seed)
    while not seed.stdout.read():
        time.sleep(0.1)
    # As a tracker does, which tells each one that comes who was there before.
    processes = [client(link, folder / f"node{place}", [registry.address] + [one.address for one in links[:place]])
                 for place, link in enumerate(links)]
    started = time.monotonic()
    for process in processes:
        begin(process)
    times = wait_for_all(started, processes, lambda process: process.stdout.read())
    for process in [seed, *processes]:
        process.kill()
    return times, [folder / f"node{place}" / source.name for place in range(len(links))]


def by_sbcast(registry, links, source, folder):
    nodes = "\n".join(f"NodeName={link.name} NodeAddr={link.address} CPUs=1 State=UNKNOWN" for link in links)
    conf = folder / "slurm.conf"
    conf.write_text(SLURM_CONF.format(host=socket.gethostname(), bridge=BRIDGE, folder=folder, nodes=nodes))
    for name in ["state", "spool", "cgroup"]:
        (folder / name).mkdir()
    # ip netns exec hides that of /sys.
    run("mount", "--rbind", "/sys/fs/cgroup", folder / "cgroup")
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    run("munged", "--force", f"--socket={folder}/munge.sock", f"--key-file={folder}/munge.key",
        f"--log-file={folder}/munged.log", f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed")
    os.environ["SLURM_CONF"] = str(conf)
    daemons = [subprocess.Popen(["slurmctld", "-D", "-f", conf], stderr=subprocess.DEVNULL)]
    for place, link in enumerate(links):
        # All of them write to one path.
        own = folder / f"node{place}"
        for path in [own, folder / "got", folder / "spool" / link.name]:
            path.mkdir(exist_ok=True)
        daemons.append(link.start(["unshare", "--mount", "sh", "-c", f"mount --bind {own} {folder}/got && "
                                   f"mount --rbind {folder}/cgroup /sys/fs/cgroup && exec slurmd -D -f {conf} "
                                   f"-N {link.name}"], stderr=subprocess.DEVNULL))
    salloc = ["salloc", "--quiet", "--no-shell", f"-N{len(links)}"]
    for _ in range(60):
        if subprocess.run(salloc, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(1)
    else:
        raise SystemExit("Slurm gives no nodes: " + (folder / "slurmctld.log").read_text()[-2000:])
    job = subprocess.run(["squeue", "--noheader", "--format=%A"], check=True, capture_output=True, text=True).stdout
    started = time.monotonic()
    sender = registry.start(["sbcast", source, folder / "got" / source.name],
                            env={**os.environ, "SLURM_JOB_ID": job.split()[0]})
    if sender.wait() != 0:
        raise SystemExit("sbcast has failed")
    seconds = time.monotonic() - started
    for daemon in daemons:
        daemon.kill()
    run("pkill", "munged")
    return [seconds] * len(links), [folder / f"node{place}" / source.name for place in range(len(links))]


def inside(options):
    folder = Path(options.inside)
    make_bridge()
    registry = Link("registry", 0, options.rate)
    links = [Link(f"n{number}", number + 1, options.rate) for number in range(options.nodes)]
    for link in [registry, *links]:
        link.meet([registry, *links])
    (folder / "source").mkdir()
    source = folder / "source" / "file"
    random.seed(1)
    source.write_bytes(random.randbytes(options.megabytes * 2**20))
    ways = {"sbcast": by_sbcast, "bittorrent": by_bittorrent, "curl": by_curl}
    before = busy()
    times, files = ways[options.way](registry, links, source, folder)
    used, all_time = [after - start for after, start in zip(busy(), before)]
    wanted = hashlib.sha256(source.read_bytes()).digest()
    for file in files:
        if hashlib.sha256(file.read_bytes()).digest() != wanted:
            raise SystemExit(f"{file} is damaged")
    ideal = options.megabytes * 2**20 / (options.rate * 1e6 / 8)
    times.sort()
    result = {"way": options.way, "nodes": options.nodes, "ideal_seconds": round(ideal, 2),
              "p50": round(times[len(times) // 2] / ideal, 2),
              "p99": round(times[min(len(times) - 1, int(0.99 * len(times)))] / ideal, 2),
              "cpu": round(used / all_time, 2)}
    print(json.dumps(result) if options.json else "\n".join(f"{name:16}{value}" for name, value in result.items()))
    return 2 if used > 0.7 * all_time else 0


if __name__ == "__main__":
    arguments()
    in_namespaces(__file__, lambda: inside(arguments()))
