"""Network namespaces on a bridge, each with a link of its own, for the programs beside this file."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
USER = 2100
BRIDGE = "10.77.255.254"  # without a limit


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, **options)


def queue_bytes(rate):
    """Twenty milliseconds, but room for two hundred packets: less, and many connections lose them all the time. In
    bytes: what the kernel hands down has as many as thirty packets, and a queue of those takes seconds."""
    return max(200 * 1500, int(rate * 1e6 / 8 / 50))


def bound(device, rate):
    """To `rate` Mbit/s, what leaves by the device."""
    run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst",
        max(65536, int(rate * 1e6 / 8 / 50)), "limit", queue_bytes(rate))


class Link:
    """A network namespace on the bridge, whose link has a rate in each direction, and a delay in milliseconds. The
    kernel says 10000 Mbit/s of it in sysfs, or what stands in the file `says`."""

    def __init__(self, name, number, rate, mtu=1500, bridge="lab", says=None, delay=0):
        self.name, self.says = name, says
        self.address = f"10.77.{number // 250}.{number % 250 + 2}"
        run("ip", "netns", "add", name)
        self.mac = f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
        if delay:
            relay = subprocess.Popen([sys.executable, HERE / "delay.py", name, f"v{number}", str(delay)],
                                     stdout=subprocess.PIPE)
            if not relay.stdout.readline():
                raise SystemExit("the link with a delay could not be made")
            run("ip", "-n", name, "link", "set", "eth0", "address", self.mac, "mtu", mtu)
        else:
            run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "address", self.mac, "mtu",
                mtu, "netns", name)
        run("ip", "link", "set", f"v{number}", "mtu", mtu, "master", bridge, "up")
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{self.address}/16", "dev", "eth0"],
                      ["link", "set", "eth0", "up"]):
            run("ip", "-n", name, *words)
        # The kernel's own default. BBR, which some machines have, pauses each connection every ten seconds.
        run("ip", "-n", name, "route", "replace", "10.77.0.0/16", "dev", "eth0", "src", self.address, "congctl",
            "cubic")
        self.shape(number, rate)

    def shape(self, number, rate):
        """The switch's port is a queue. A node's acknowledgements do not wait behind what it sends, as on hosts with
        fq_codel, which is not in every kernel."""
        bound(f"v{number}", rate)
        tc = ["tc", "-n", self.name]
        run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "20")
        run(*tc, "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate}mbit",
            "quantum", 3000)
        for number, share, order in ((10, 0.1, 0), (20, 0.9, 1)):
            run(*tc, "class", "add", "dev", "eth0", "parent", "1:1", "classid", f"1:{number}", "htb", "rate",
                f"{rate * share}mbit", "ceil", f"{rate}mbit", "prio", order, "quantum", 3000)
            run(*tc, "qdisc", "add", "dev", "eth0", "parent", f"1:{number}", "bfifo", "limit", queue_bytes(rate))
        self.nft("add table inet acks; add chain inet acks out { type filter hook postrouting priority 0; policy "
                 "accept; }; add rule inet acks out meta length < 100 meta priority set 1:10")

    def meet(self, others):
        """Neighbours for good: the kernel keeps a thousand of those that it asked for, in all namespaces together."""
        lines = [f"neigh replace {other.address} lladdr {other.mac} nud permanent dev eth0\n" for other in others]
        run("ip", "-n", self.name, "-batch", "-", input="".join(lines).encode())

    def nft(self, rules):
        run("ip", "netns", "exec", self.name, "nft", rules)

    def lose(self, percent):
        """So many of the packets that come, by chance."""
        if percent:
            self.nft("add table inet loss; add chain inet loss in { type filter hook input priority 0; policy accept; "
                     f"}}; add rule inet loss in numgen random mod 10000 < {int(percent * 100)} drop")

    def part_from(self, links):
        """What comes from them is lost, and from nobody else."""
        self.nft("add table inet part; delete table inet part")
        if links:
            self.nft("add table inet part; add chain inet part in { type filter hook input priority 0; policy accept; "
                     f"}}; add rule inet part in ip saddr {{ {', '.join(link.address for link in links)} }} drop")

    def start(self, words, **options):
        if self.says:
            words = ["sh", "-c", 'mount --bind "$0" /sys/class/net/eth0/speed && exec "$@"', self.says, *words]
        return subprocess.Popen(["ip", "netns", "exec", self.name, *[str(word) for word in words]], **options)


def make_bridge():
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "lab", "type", "bridge")
    run("ip", "address", "add", f"{BRIDGE}/16", "dev", "lab")
    run("ip", "link", "set", "lab", "up")


def make_rack(number, mtu, uplink):
    """A switch below the first one; its name."""
    name = f"rack{number}"
    run("ip", "link", "add", name, "type", "bridge")
    run("ip", "link", "set", name, "mtu", mtu, "up")
    run("ip", "link", "add", f"up{number}", "mtu", mtu, "type", "veth", "peer", "name", f"down{number}", "mtu", mtu)
    run("ip", "link", "set", f"up{number}", "master", name, "up")
    run("ip", "link", "set", f"down{number}", "master", "lab", "up")
    for end in [f"up{number}", f"down{number}"] if uplink else []:
        bound(end, uplink)
    return name


def busy():
    """Ticks of all processors since the start: those in which they worked, and all."""
    fields = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def has_other_ids():
    """Not so in the user namespace that is made for an ordinary user."""
    return sum(int(line.split()[2]) for line in open("/proc/self/uid_map")) > 1


def as_user(words):
    """The words of a command that an ordinary user runs, who may write what give_to_user() was called for."""
    if has_other_ids():
        change = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
    else:
        change = ["unshare", "--user", "--map-user", USER, "--map-group", USER]
    return [str(word) for word in change + words]


def give_to_user(path):
    if has_other_ids():
        os.chown(path, USER, USER)


def in_namespaces(script, work):
    """Runs `script` again with --inside FOLDER, an empty tmpfs, in namespaces of its own, where it can do as root can.
    There it calls `work`."""
    if "--inside" in sys.argv:
        raise SystemExit(work())
    folder = tempfile.mkdtemp(prefix="berth-laboratory-")
    os.chmod(folder, 0o755)
    try:
        be_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = ["unshare", *be_root, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                   # The first process of the namespace is not to be the parent of any other.
                   "sh", "-c", 'mount -t tmpfs -o mode=755,size=90% tmpfs "$0" && "$@"; exit $?', folder,
                   sys.executable, script, "--inside", folder, *sys.argv[1:]]
        # HOME: no program is to read what its user has set there.
        raise SystemExit(subprocess.run(command, check=False, env={**os.environ, "HOME": folder}).returncode)
    finally:
        os.rmdir(folder)
