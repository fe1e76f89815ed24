#!/usr/bin/env python3
"""A link that takes its time, for kernels without netem: delay.py NAMESPACE DEVICE MILLISECONDS

Makes the tap device DEVICE here and eth0 in the network namespace, prints a line, and hands each frame on from one to
the other so many milliseconds later, until it is killed. Some ten thousand frames a second are what it can do."""

import collections
import ctypes
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # linux/if_tun.h
CLONE_NEWNET = 0x40000000
LONGEST_FRAME = 1 << 16


def tap(name):
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return end


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"entering the network namespace {namespace}")


def hand_on(end, frame):
    try:
        os.write(end, frame)
    except OSError:
        pass  # the device is down, or its queue is full: a link loses what it cannot carry


def relay(first, second, seconds):
    other = {first: second, second: first}
    waiting = collections.deque()  # (when, to which end, frame)
    while True:
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            hand_on(end, frame)
        pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select([first, second], [], [], pause)[0]:
            waiting.append((time.monotonic() + seconds, other[end], os.read(end, LONGEST_FRAME)))


def main():
    namespace, device, milliseconds = sys.argv[1:]
    here = tap(device)
    enter(namespace)
    there = tap("eth0")
    print("ready", flush=True)
    relay(here, there, float(milliseconds) / 1000)


if __name__ == "__main__":
    main()
