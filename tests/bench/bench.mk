# What is measured, and the soak; included by the Makefile.

# Start latency beside the peers that are installed (unshare, bwrap, ch-run, crun, podman), and where it goes; as an
# ordinary user, with /dev/fuse usable.
bench-start: all
	python3 tests/bench/start.py $(BUILD)/berth $(BUILD)/tests/inside
	$(BUILD)/tests/kernel '[bench]'

# What the hooks add to a start on a node with eight GPUs and eight adapters, which a folder stands for; as an ordinary
# user.
bench-hooks: $(BUILD)/tests/kernel
	$(BUILD)/tests/kernel '[bench-hooks]'

# What a container costs on a node with a GPU; as an ordinary user there. TORCH is a Python that has PyTorch.
bench-gpu: all gpu-tests
	python3 tests/bench/gpu.py $(BUILD) 40 $(TORCH)

# What a container adds to a step, with 1 and 8 tasks: in a box that is up and whose registry and stores have the image
# (scripts/make-test-image); as root.
bench-srun: all
	scripts/slurm-in-a-box run -u alice -- salloc -Q -w n1 -n8 --overcommit python3 - $(IMAGE) < tests/bench/srun.py

# What a container costs a program that computes on all CPUs, and the tail of its rounds; as bench-srun.
bench-noise: all $(BUILD)/tests/noise
	scripts/slurm-in-a-box run -u alice -- salloc -Q -w n1 --exclusive python3 - $(IMAGE) \
	  $(abspath $(BUILD)/tests/noise) < tests/bench/noise.py

# A pull of a large generated image beside its parts run alone (igzip, openssl, tar2sqfs) and the peers that are
# installed (podman, charliecloud, skopeo with umoci, mksquashfs; all are Debian packages); SCALE=1 is 3.6 GB. As an
# ordinary user, or podman is left out.
SCALE ?= 1
bench-image: all
	python3 tests/bench/image.py $(BUILD)/berth-pull --scale $(SCALE) --json $(BUILD)/bench-image.json

# Starts of such an image over a shaped link until a program is ready: complete first, early, and with a profile. As
# root.
RATE ?= 1000
DELAY ?= 20
bench-early: all
	python3 tests/bench/early.py $(BUILD)/berth --scale $(SCALE) --rate $(RATE) --delay $(DELAY) \
	  --json $(BUILD)/bench-early.json

# Cold starts of such an image on eight nodes of a box of their own, as `berth report` draws them, for docs/cluster.md.
# As root.
pictures: all
	python3 tests/bench/pictures.py docs/pictures

# Reading inside an image beside an unpacked directory, the kernel's squashfs and squashfuse_ll. As root, who drops to
# an ordinary user for all but the kernel's mount.
bench-io: all $(BUILD)/tests/serve
	python3 tests/bench/io.py $(BUILD)/berth-pull $(BUILD)/tests/serve --scale $(SCALE) --json $(BUILD)/bench-io.json

# An import of Python's frameworks in a new container, beside a directory, the kernel's squashfs and squashfuse_ll; as
# root, who drops to an ordinary user as bench-io does. TURNS of each; SMALL=yes leaves PyTorch out.
TURNS ?= 15
bench-import: all
	python3 tests/bench/import.py $(BUILD) --turns $(TURNS) $(if $(SMALL),--small) --json $(BUILD)/bench-import.json

# 200,000 small files in a squashfs file that is mounted in a container, beside squashfuse_ll and a directory; as root,
# who drops to an ordinary user. TURNS of each; FILES of them.
FILES ?= 200000
bench-data: all
	python3 tests/bench/data.py $(BUILD) --files $(FILES) $(if $(filter-out 15,$(TURNS)),--turns $(TURNS)) \
	  --json $(BUILD)/bench-data.json

# Our writer and reader of squashfs files beside libsquashfs' and squashfs-tools', on one CPU; as an ordinary user.
FOLDER ?= /usr/share
bench-squashfs: all
	python3 tests/bench/squashfs.py $(BUILD) $(FOLDER)

# The table "What it costs" of README.md, from the above in one run of hours; as root, on a machine that nobody else
# uses. SHORT=yes shows in minutes that each row can be measured; ROWS=start,srun,io,import,image,early.
bench-readme: all $(BUILD)/tests/serve $(BUILD)/tests/inside
	python3 tests/bench/readme.py $(BUILD) $(if $(SHORT),--short) $(if $(ROWS),--only $(ROWS)) \
	  $(if $(BENCH_USER),--user $(BENCH_USER))

# A thousand starts and two hundred kills at random moments must leave nothing: in a box that is up (as root), or with
# `make soak-run IMAGE=...` outside of Slurm (as an ordinary user).
STARTS ?= 1000
KILLS ?= 200
IMAGE ?= 127.0.0.1:$(or $(BERTH_BOX_REGISTRY_PORT),5000)/debian:12
soak: all
	python3 tests/soak/soak.py slurm scripts/slurm-in-a-box $(IMAGE) --starts $(STARTS) --kills $(KILLS)
soak-run: all
	python3 tests/soak/soak.py run $(BUILD)/berth $(IMAGE) --starts $(STARTS) --kills $(KILLS)

# What a pull costs when little or nothing is new.
bench-again: all
	python3 tests/bench/again.py $(BUILD)/berth-pull

# Compares builds, in one run: make bench-ab WHAT=io|start AB='with=build without=/other/build'; WHAT=io as root,
# WHAT=start as an ordinary user.
WHAT ?= start
bench-ab: all
	python3 tests/bench/ab.py $(WHAT) $(AB)
