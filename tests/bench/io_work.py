"""One measurement in the working directory, which is a mounted image: io_work.py NAME; prints seconds, or operations a
second for random4k."""
import os
import random
import subprocess
import sys
import time


def find():
    subprocess.run(["/usr/bin/find", ".", "-xdev", "-printf", ""], check=True)


def stat_all():
    """As ls -lR: every attribute of every file."""
    subprocess.run(["/usr/bin/find", ".", "-xdev", "-size", "-1k", "-newermt", "2100-01-01"], check=True)


def stat_after_find():
    """Every attribute, when a program has walked the tree before: of the names that the kernel knows by then."""
    find()
    start = time.perf_counter()
    stat_all()
    return time.perf_counter() - start


def small_files():
    # Not to /dev/null directly: tar notices that and reads nothing.
    subprocess.run("tar cf - usr/lib/python3 usr/share etc | cat > /dev/null", shell=True, check=True)


def imports():
    code = "import sys; sys.path.insert(0, 'opt/storm'); sys.dont_write_bytecode = True\nimport storm"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


LARGE = "usr/local/lib/python3/dist-packages/torch"


def sequential():
    left = 400 << 20
    for name in sorted(os.path.join(LARGE, name) for name in os.listdir(LARGE) if ".so.1" in name):
        with open(name, "rb", buffering=0) as file:
            while left > 0 and (part := file.read(1 << 20)):
                left -= len(part)


def random4k():
    """Over all large files, together far more than any cache, at places that no read-ahead can guess; each page at most
    once."""
    names = [os.path.join(at, name) for at, _, files in os.walk("usr/local") for name in files if ".so.1" in name]
    files = [os.open(name, os.O_RDONLY) for name in sorted(names)]
    for file in files:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    pages = [(file, page) for file in files for page in range(os.fstat(file).st_size // 4096)]
    places = random.Random(1).sample(pages, 6000)
    start = time.perf_counter()
    for file, page in places:
        os.pread(file, 4096, page * 4096)
    return len(places) / (time.perf_counter() - start)


def timed(work):
    start = time.perf_counter()
    result = work()
    return result if result is not None else time.perf_counter() - start


def main():
    work = {"find": find, "stat": stat_all, "findstat": stat_after_find, "small": small_files, "import": imports,
            "sequential": sequential, "random4k": random4k}[sys.argv[1]]
    print(timed(work), timed(work))


if __name__ == "__main__":
    main()
