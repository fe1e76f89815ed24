"""A walk of the folder PLACE, all files in the order of ORDER, and these once more: data_work.py PLACE ORDER [stay];
prints when it was started, and the seconds of each."""
import os
import subprocess
import sys
import time


def find():
    subprocess.run(["/usr/bin/find", ".", "-type", "f", "-printf", ""], check=True)


def read(names):
    for name in names:
        with open(name, "rb") as file:
            file.read()


def timed(act, *arguments):
    start = time.perf_counter()
    act(*arguments)
    return time.perf_counter() - start


def main():
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with open(sys.argv[2], encoding="ascii") as file:
        names = file.read().split("\n")
    os.chdir(sys.argv[1])
    print(began, timed(find), timed(read, names), timed(read, names), flush=True)
    if sys.argv[3:] == ["stay"]:
        time.sleep(60)


if __name__ == "__main__":
    main()
