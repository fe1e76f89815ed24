# One non-recursive Makefile. `make help` lists the targets and the settings.
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

VERSION := 0.1.0
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
LIBEXECDIR ?= $(PREFIX)/libexec
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share
LOCALSTATEDIR ?= /var
BASH_COMPLETION_DIR ?= $(DATADIR)/bash-completion/completions
ZSH_COMPLETION_DIR ?= $(DATADIR)/zsh/site-functions
FISH_COMPLETION_DIR ?= $(DATADIR)/fish/vendor_completions.d
ifeq ($(origin CXX),default)
CXX := g++
endif
# SLURM=PREFIX takes the headers of the Slurm that is installed there. Each release has its own plugin, beside others.
SLURM ?=
ifneq ($(SLURM),)
slurm_release := $(shell sed -n 's/^.define SLURM_VERSION_NUMBER 0x\(..\)\(..\)\(..\)/0x\1 0x\2 0x\3/p' \
  $(SLURM)/include/slurm/slurm_version.h 2>/dev/null | xargs -r printf '%d.%02d.%d')
ifeq ($(slurm_release),)
$(error SLURM=$(SLURM): no slurm/slurm_version.h in its folder include; name the prefix of an installed Slurm)
endif
SLURM_PLUGIN_DIR ?= $(firstword $(wildcard $(addprefix $(SLURM)/lib,64/slurm /slurm \
  /$(shell $(CXX) -print-multiarch)/slurm-wlm)) $(SLURM)/lib/slurm)
endif
SLURM_PLUGIN_DIR ?= $(PREFIX)/lib/$(shell $(CXX) -print-multiarch)/slurm-wlm

# CCACHE= compiles without it.
CCACHE ?= $(if $(findstring ccache,$(CXX)),,$(shell command -v ccache 2>/dev/null))
SAN ?=
COV ?=
# `make unit` is for those who change something and test again: a build of its own, nothing of which is optimised.
ifneq ($(filter unit,$(MAKECMDGOALS)),)
BUILD ?= build-unit
OPTIMIZE ?= 0
PCH ?= 1
UNITY ?= 1
CXXFLAGS ?= -g1
# A precompiled header is allowed, and other checkouts find the same objects.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_NOHASHDIR ?= 1
endif
BUILD ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(COV),-cov)
comma := ,

# What is undefined ends the program, as what the other sanitizers find does.
sanitizer_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
  $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=all))

# Of the programs; tests are not optimised at all. 1 is for builds that are not measured.
OPTIMIZE ?= 2

# The user's CXXFLAGS and LDFLAGS come last, so that they win.
warnings := -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wformat=2
base_flags := -std=c++20 -O$(OPTIMIZE) -g $(warnings) -I. -DBERTH_VERSION='"$(VERSION)"' -D_FILE_OFFSET_BITS=64 \
  -pthread $(sanitizer_flags) $(if $(COV),--coverage -O0) $(if $(SAN)$(COV)$(filter 0,$(OPTIMIZE)),,-D_FORTIFY_SOURCE=2)
base_ldflags := -pthread -Wl,--as-needed -Wl,-z,relro,-z,now $(if $(SAN),-fsanitize=$(SAN)) $(if $(COV),--coverage)

# Where ISA-L is not there, zlib unpacks gzip, in twice the time.
ISAL ?= $(if $(shell pkg-config --exists libisal 2> /dev/null && echo yes),yes,no)
isal := $(filter yes,$(ISAL))
packages := fuse3 libarchive libcurl libcrypto libmicrohttpd libzstd liblz4 liblzma zlib libseccomp \
  $(isal:yes=libisal) libsquashfs1 yaml-cpp
package_flags := $(shell pkg-config --cflags $(packages) 2>/dev/null)
start_libraries := $(shell pkg-config --libs fuse3 libzstd liblz4 liblzma zlib libseccomp 2>/dev/null) -llzo2 -ldl
# To load these takes a quarter of a millisecond at every start, so berth itself has them linked in where there are
# archives of them.
# STATIC= links them dynamically, for distributions that mend a library in one place.
STATIC ?= 1
has_archive = $(filter /%,$(shell $(CXX) -print-file-name=lib$(1).a))
linked_in := $(if $(and $(STATIC),$(if $(SAN),,1)),\
  $(foreach name,fuse3 zstd lz4 lzma z seccomp lzo2,$(if $(call has_archive,$(name)),-l$(name))))
program_libraries := $(if $(linked_in),-Wl$(comma)-Bstatic $(linked_in) -Wl$(comma)-Bdynamic) \
  $(filter-out $(linked_in),$(start_libraries))
pull_packages := libarchive libcurl libcrypto $(isal:yes=libisal) libsquashfs1 yaml-cpp libzstd liblz4 liblzma zlib
# Few nodes have it, and where libcurl is there is GnuTLS.
microhttpd := $(if $(and $(STATIC),$(if $(SAN),,1),$(call has_archive,microhttpd)),\
  -Wl$(comma)-Bstatic -lmicrohttpd -Wl$(comma)-Bdynamic -lgnutls,-lmicrohttpd)
pull_libraries := $(microhttpd) $(shell pkg-config --libs $(pull_packages) 2>/dev/null) -llzo2 -ldl

# A test's time goes into compiling it, not into running it.
test_flags := -O0 -U_FORTIFY_SOURCE
# PCH=1 reads Catch2 once for all tests instead of once for each, a second a file.
PCH ?=
# UNITY=1 compiles a folder of the programs or the plugin as one file, in a third of the time (scripts/test,
# scripts/demo, fuzz). That hides a missing #include, which `make` and `make check-includes` find.
UNITY ?=
# A program uses parts of some folders. What it does not is thrown away again, so that nothing is missed that only this
# calls.
base_flags += $(if $(UNITY),-ffunction-sections -fdata-sections -Wno-shadow \
  $(if $(findstring clang,$(CXX)),,-Wno-subobject-linkage))
base_ldflags += $(if $(UNITY),-Wl$(comma)--gc-sections)

all_flags = $(base_flags) $(package_flags) $(CPPFLAGS) $(CXXFLAGS)

# A folder is a layer and becomes one archive; the order is the link order, from the top down (scripts/check-layers has
# it from the bottom up).
layers := apptainer migrate doctor step container images hooks sandbox mount trust host store oci squash enroot plan \
  telemetry config request base
folder_hooks := hooks
$(foreach layer,$(filter-out hooks,$(layers)),$(eval folder_$(layer) := runtime/$(layer)))
sources_in = $(sort $(wildcard $(1)/*.cc $(1)/*/*.cc $(1)/*/*/*.cc))
$(foreach layer,$(layers),$(eval sources_$(layer) := $(call sources_in,$(folder_$(layer)))))
sources_sandbox := $(filter-out runtime/sandbox/generate/%,$(sources_sandbox))
sources_oci := $(if $(isal),$(sources_oci),$(filter-out %/gzip_isal.cc,$(sources_oci)))
archives_of = $(foreach layer,$(1),$(BUILD)/$(layer).a)
archives := $(call archives_of,$(layers))

# A program is its own folder and the layers below it. What talks to registries is not in `berth`, and what makes
# containers not in `berth-pull`.
berth_sources := $(call sources_in,runtime/cli)
berth_archives := $(call archives_of,$(filter-out oci trust,$(layers)))
pull_sources := $(call sources_in,runtime/pull)
pull_archives := $(call archives_of,$(filter-out apptainer migrate doctor step container mount,$(layers)))
# It may change GPUs as root, and has nothing of what makes containers.
mig_sources := $(call sources_in,runtime/mig)
mig_archives := $(call archives_of,host plan telemetry config request base)
# What the tests link of the programs: everything but the files with main.
testable_sources := $(sort $(filter-out %/main.cc,$(berth_sources) $(pull_sources) $(mig_sources))) \
  $(wildcard $(addprefix spank/,cgroup.cc config.cc device_filter.cc ending.cc follow.cc helper.cc inhabitants.cc \
  held_devices.cc job_leaves.cc job_mounts.cc job_steps.cc join.cc leaf.cc memory_kills.cc \
  overdue.cc owned_directory.cc own_cgroup.cc own_process.cc run_directory.cc sentinel.cc task_prolog.cc \
  user_folders.cc watch.cc))
# The plugin has the grammar of requests and the messages to the helper, and nothing else above base.
plugin_messages := $(addprefix runtime/plan/,messages.cc visible_devices.cc)
plugin_sources := $(sort $(wildcard spank/*.cc)) $(sources_base) $(sources_request)
# Targets for libFuzzer: a program that has a name for each (`make fuzz`), and all of them in the unit tests, which feed
# them what is kept in tests/hostile.
fuzz_targets := $(patsubst tests/hostile/fuzz_%.cc,%,\
  $(filter-out %/fuzz_main.cc,$(sort $(wildcard tests/hostile/fuzz_*.cc))))
fuzz_sources := tests/hostile/fuzz_main.cc tests/hostile/target.cc $(fuzz_targets:%=tests/hostile/fuzz_%.cc)
# Parsers in the folders that link more than a parser needs.
fuzz_parsers := $(addprefix runtime/apptainer/,flags.cc inspect.cc variables.cc) \
  runtime/cli/running_job.cc runtime/container/entrypoint_report.cc runtime/doctor/plugin_version.cc \
  $(addprefix runtime/enroot/,data_path.cc site_files.cc) \
  runtime/mount/fuse/elf_loads.cc \
  $(addprefix runtime/images/,file.cc kept_index.cc sif_environment.cc spelling.cc) \
  runtime/pull/nodes/protocol/agreement.cc runtime/pull/image/seal.cc \
  $(addprefix runtime/pull/nodes/,protocol/chunk_head.cc protocol/messages.cc protocol/request_path.cc \
    protocol/session.cc chunks/chunk_reader.cc chunks/chunk_stream.cc chunks/partial_chunks.cc peer/lazy_image.cc \
    policy/chunk_owners.cc) \
  $(wildcard runtime/pull/report/*.cc) \
  $(wildcard runtime/mig/layout/*.cc) \
  $(addprefix spank/,cgroup.cc config.cc follow.cc overdue.cc task_prolog.cc)
unit_sources := $(sort $(wildcard tests/main.cc tests/unit/*.cc tests/registry/*.cc tests/fixtures/failing_calls.cc) \
  $(filter-out %/fuzz_main.cc,$(wildcard tests/hostile/*.cc)) \
  $(filter-out %/tables.cc,$(wildcard tests/cluster/model/*.cc)))
# The model of a cold start on many nodes: a program of its own, and in the unit tests.
model_sources := $(sort $(wildcard tests/cluster/model/*.cc))
sanitizer_sources := $(if $(SAN),tests/fixtures/sanitizer_options.cc)
# A sanitizer makes system calls of its own, and ends the program where one of them fails.
left_out_tests := $(if $(SAN),tests/kernel/every_call_test.cc)
kernel_sources := $(sort $(filter-out $(left_out_tests),\
  $(wildcard tests/main.cc tests/kernel/*.cc tests/fixtures/failing_calls.cc)))

# On a machine with a GPU (`scripts/test gpu`); nvcc is no need of the build.
gpu_sources := $(sort $(wildcard tests/gpu/*.cc))
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
cuda_header = $(and $(NVCC),$(wildcard $(realpath $(dir $(NVCC))..)/include/$(1) /usr/include/$(1)))
cublas := $(call cuda_header,cublas_v2.h)
nccl := $(call cuda_header,nccl.h)
gpu_programs := $(if $(NVCC),sum jit unified ipc $(if $(cublas),blas) $(if $(nccl),nccl))
# And of other interfaces, each where its headers are.
egl := $(and $(wildcard /usr/include/EGL/eglext.h),$(wildcard /usr/include/GLES3/gl3.h))
vulkan := $(and $(egl),$(wildcard /usr/include/vulkan/vulkan.h),$(shell command -v glslangValidator 2>/dev/null))
opencl := $(wildcard /usr/include/CL/cl.h)
video := $(wildcard /usr/include/ffnvcodec/dynlink_loader.h)
gpu_programs += $(if $(egl),egl) $(if $(vulkan),vulkan) $(if $(opencl),opencl) $(if $(video),video)

objects_of = $(patsubst %.cc,$(BUILD)/$(1)/%.o,$(2))
# With UNITY one source a folder, which includes all others, wherever a list has the whole folder. Not the file with
# main(), which tests do without. Of tests so many in one (scripts/unite-tests), by the number of the first.
tests_at_once := 14
can_unite_tests := tests/unit/%_test.cc tests/kernel/%_test.cc $(fuzz_targets:%=tests/hostile/fuzz_%.cc)
united_tests = $(foreach first,$(shell seq 1 $(tests_at_once) $(words $(1))),\
  $(BUILD)/unity/$(dir $(firstword $(1)))$(first).cc)
folder_sources = $(filter-out %/main.cc $(if $(isal),,%/gzip_isal.cc),$(wildcard $(1)*.cc))
united_folder = $(if $(filter-out $(2),$(call folder_sources,$(1))),$(filter $(call folder_sources,$(1)),$(2)),\
  $(BUILD)/unity/$(1)all.cc)
united = $(if $(UNITY),$(filter-out $(can_unite_tests),$(filter tests/% %/main.cc,$(1))) \
  $(foreach folder,tests/unit/ tests/kernel/ tests/hostile/,\
  $(call united_tests,$(filter $(folder)%,$(filter $(can_unite_tests),$(1))))) $(foreach folder,\
  $(sort $(dir $(filter-out tests/% %/main.cc,$(1)))),$(call united_folder,$(folder),$(1))),$(1))
objects = $(call objects_of,obj,$(call united,$(1)))
pic_objects = $(call objects_of,pic,$(call united,$(1)))
all_sources := $(sort $(foreach layer,$(layers),$(sources_$(layer))) $(berth_sources) $(pull_sources) \
  $(mig_sources) \
  $(plugin_sources) $(plugin_messages) $(unit_sources) $(model_sources) tests/cluster/read_profile.cc \
  $(kernel_sources) $(gpu_sources))

# By which `berth` is called too.
other_names := enroot apptainer singularity
programs := $(if $(berth_sources),$(addprefix $(BUILD)/,berth $(other_names))) \
  $(if $(pull_sources),$(BUILD)/berth-pull) \
  $(if $(mig_sources),$(BUILD)/berth-mig)
plugin_folder := $(BUILD)$(if $(SLURM),/slurm-$(slurm_release))
plugin := $(if $(wildcard spank/*.cc),$(plugin_folder)/spank_berth.so)
tests := $(if $(wildcard tests/unit/*.cc),$(BUILD)/tests/unit) \
  $(if $(wildcard tests/kernel/*.cc),$(BUILD)/tests/kernel) $(if $(gpu_sources),$(BUILD)/tests/gpu) \
  $(if $(model_sources),$(BUILD)/tests/cluster_model $(BUILD)/tests/read_profile)

# Programs that show the public functions of runtime/squash and runtime/oci.
examples := $(patsubst docs/examples/%.cc,$(BUILD)/examples/%,$(wildcard docs/examples/*.cc))

.PHONY: all plugin tests examples unit check cluster-model gpu-tests fuzz fuzz-run fuzz-programs \
  bench-again bench-data bench-early bench-gpu bench-hooks bench-image bench-import bench-io bench-noise bench-srun \
  bench-start bench-readme bench-squashfs pictures \
  soak soak-run bench-ab \
  install install-files install-enroot install-apptainer install-mig deb rpm dist tarball tidy wrap format \
  check-layers check-lint check-messages check-rows check-fuzz check-includes check-consistency check-exports clean help
all: $(programs) $(plugin) compile_commands.json
plugin: $(plugin)
tests: $(tests)
examples: $(examples)

# Objects depend on this file, which changes only when the flags do.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CXX) $(subst ','\'',$(all_flags)) $(LDFLAGS) ISAL=$(ISAL)' | cmp -s - $@ || \
	  echo '$(CXX) $(subst ','\'',$(all_flags)) $(LDFLAGS) ISAL=$(ISAL)' > $@
FORCE:

# With TAG=plan, `make unit` has only the files with tests of that tag, and of Berth what they include: folders from the
# topmost one down, or everything where a program or the plugin is among them.
TAG ?=
tagged_needs := $(if $(TAG),$(shell scripts/test-needs $(TAG) $(filter tests/unit/%_test.cc,$(unit_sources))))
tagged_tests := $(filter %.cc,$(tagged_needs))
tagged_folders := $(filter-out %.cc,$(tagged_needs))
from_topmost = $(if $(1),$(if $(filter $(folder_$(firstword $(1))),$(tagged_folders)),$(1),\
  $(call from_topmost,$(wordlist 2,$(words $(1)),$(1)))))
needs_all := $(filter-out tests/catch.hh tests/fixtures $(foreach layer,$(layers),$(folder_$(layer))),$(tagged_folders))
tagged_unneeded := $(patsubst %,%/%,$(filter-out $(tagged_folders),tests/hostile tests/cluster))
tagged_support := $(if $(needs_all),$(filter-out %_test.cc $(tagged_unneeded),$(unit_sources)) \
  $(testable_sources),tests/main.cc)
tagged_objects := $(call objects_of,obj,$(tagged_tests)) $(call objects,$(tagged_support))
tagged_archives := $(if $(needs_all),$(archives),$(call archives_of,$(call from_topmost,$(layers))))

$(BUILD)/pch/catch.hh: $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '#include "tests/catch.hh"' > $@
$(BUILD)/pch/catch.hh.gch: $(BUILD)/pch/catch.hh
	$(CCACHE) $(CXX) $(base_flags) $(test_flags) $(package_flags) $(CPPFLAGS) -x c++-header $< -o $@ $(CXXFLAGS)
ifneq ($(PCH),)
with_catch := $(call objects,$(filter %_test.cc,$(unit_sources) $(kernel_sources))) \
  $(call objects_of,obj,$(tagged_tests))
$(with_catch): $(BUILD)/pch/catch.hh.gch
$(with_catch): test_flags += -include $(BUILD)/pch/catch.hh
endif

# Several makes may be at work in one folder, as those of scripts/test are: none sees another one's file half written.
replace_if_new = if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi
# Kept, else each build would make them and compile them anew.
.PRECIOUS: $(BUILD)/unity/%all.cc $(BUILD)/unity/tests/%.cc
$(BUILD)/unity/%all.cc: FORCE
	@mkdir -p $(@D)
	@new=$@.$$$$; printf '#include "%s"\n' $(call folder_sources,$*) > $$new && $(replace_if_new)

$(BUILD)/unity/tests/%.cc: FORCE
	@mkdir -p $(@D)
	@new=$@.$$$$; scripts/unite-tests $(wordlist $(notdir $*),$(shell expr $(notdir $*) + $(tests_at_once) - 1),\
	  $(filter $(can_unite_tests),$(filter-out $(left_out_tests),$(sort $(wildcard tests/$(dir $*)*.cc))))) > $$new && \
	  $(replace_if_new)

$(BUILD)/obj/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(base_flags) $(if $(filter tests/% $(BUILD)/unity/tests/%,$<),$(test_flags)) $(package_flags) \
	  $(CPPFLAGS) -MMD -MP -c $< -o $@ $(CXXFLAGS)

$(call objects_of,obj,runtime/oci/layer/gzip_engine.cc $(BUILD)/unity/runtime/oci/layer/all.cc): \
  CPPFLAGS += $(if $(isal),-DBERTH_ISAL)

$(BUILD)/pic/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(base_flags) $(CPPFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@ $(CXXFLAGS)

# With other headers than those of the compiler's own search path: only spank/ includes Slurm's.
$(BUILD)/slurm-$(slurm_release)/%.o: spank/%.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(base_flags) -I$(SLURM)/include $(CPPFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@ \
	  $(CXXFLAGS)

# The usual system call filters, made once here instead of at every start.
$(BUILD)/generate-filters: \
    $(call objects_of,obj,$(addprefix runtime/sandbox/,generate/filters.cc seccomp.cc fake_chown.cc)) $(BUILD)/base.a
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ -lseccomp $(CXXFLAGS) $(LDFLAGS)
$(BUILD)/generated/filter_table.cc: $(BUILD)/generate-filters
	@mkdir -p $(@D)
	$< > $@
$(BUILD)/generated/filter_table.o: $(BUILD)/generated/filter_table.cc
	$(CXX) $(base_flags) $(CPPFLAGS) -MMD -MP -c $< -o $@ $(CXXFLAGS)
$(BUILD)/sandbox.a: $(BUILD)/generated/filter_table.o

define archive_rule
$$(BUILD)/$(1).a: $$(call objects,$$(sources_$(1)))
	@rm -f $$@
	$$(AR) qcs $$@ $$^
endef
# Files of one name may be in several folders of a layer, so that members are appended, not replaced.
$(foreach layer,$(layers),$(eval $(call archive_rule,$(layer))))

$(BUILD)/berth: $(call objects,$(berth_sources) $(sanitizer_sources)) $(berth_archives)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(if $(SAN),,-static-libstdc++ -static-libgcc) \
	  $(program_libraries) $(CXXFLAGS) $(LDFLAGS)

# The same program, which goes by its name (docs/adr/0113, 0207).
$(addprefix $(BUILD)/,$(other_names)): | $(BUILD)/berth
	ln -sf berth $@

$(BUILD)/berth-pull: $(call objects,$(pull_sources) $(sanitizer_sources)) $(pull_archives)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(pull_libraries) $(CXXFLAGS) $(LDFLAGS)

$(BUILD)/berth-mig: $(call objects,$(mig_sources) $(sanitizer_sources)) $(mig_archives)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(if $(SAN),,-static-libstdc++ -static-libgcc) -ldl $(CXXFLAGS) \
	  $(LDFLAGS)

# berth-pull again, looking for its libraries in a folder beside it first, wherever that is: for `make tarball`. (By
# DT_RPATH: DT_RUNPATH does not hold for the libraries' own libraries.)
$(BUILD)/portable/berth-pull: $(call objects,$(pull_sources) $(sanitizer_sources)) $(pull_archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(pull_libraries) $(CXXFLAGS) $(LDFLAGS) \
	  -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../../lib/berth'

# libstdc++ is linked in and every symbol but SPANK's own is hidden: a plugin must not disturb its host.
slurm_objects := $(if $(SLURM),$(patsubst spank/%.cc,$(plugin_folder)/%.o,$(wildcard spank/*.cc)))
other_plugin_sources := $(if $(SLURM),$(filter-out spank/%,$(plugin_sources)),$(plugin_sources))
$(plugin): $(slurm_objects) $(call pic_objects,$(other_plugin_sources)) \
    $(call objects_of,pic,$(plugin_messages)) spank/exports.map
	$(CXX) $(base_flags) -shared $(filter %.o,$^) -o $@ -static-libstdc++ -static-libgcc \
	  -Wl,--version-script=spank/exports.map -Wl,--exclude-libs,ALL -Wl,-z,relro,-z,now $(CXXFLAGS) $(LDFLAGS)

# Version 3 of Catch2 is a library.
test_libraries := $(start_libraries) $(pull_libraries) \
  $(shell pkg-config --atleast-version=3 catch2 2>/dev/null && pkg-config --libs catch2) -lutil
# What is optimised comes first: of templates that both have, the linker takes the first.
$(BUILD)/tests/unit: $(call objects,$(testable_sources) $(unit_sources)) \
    $(if $(filter thread,$(SAN)),$(call objects,$(sanitizer_sources))) $(archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(test_libraries) $(CXXFLAGS) $(LDFLAGS)
$(BUILD)/tests/unit-$(TAG): $(tagged_objects) $(tagged_archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(test_libraries) $(CXXFLAGS) $(LDFLAGS)
$(BUILD)/tests/kernel: $(call objects,$(testable_sources) $(kernel_sources) $(sanitizer_sources)) $(archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(test_libraries) $(CXXFLAGS) $(LDFLAGS)
# It calculates for minutes, so that it is optimised as the programs are.
$(call objects_of,obj,$(model_sources)): test_flags :=
$(BUILD)/tests/cluster_model: $(call objects,$(model_sources) runtime/pull/nodes/policy/plan.cc)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(CXXFLAGS) $(LDFLAGS)
# The tables of docs/cluster.md, or with TABLE=NAME one of them.
cluster-model: $(BUILD)/tests/cluster_model
	$< $(TABLE)
# For the laboratory (tests/cluster).
$(BUILD)/tests/read_profile: $(call objects_of,obj,tests/cluster/read_profile.cc) $(berth_archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(program_libraries) $(CXXFLAGS) $(LDFLAGS)
$(examples): $(BUILD)/examples/%: $(BUILD)/obj/docs/examples/%.o \
    $(call archives_of,oci squash enroot plan telemetry config request base)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(pull_libraries) $(CXXFLAGS) $(LDFLAGS)
# Some of the tests run the programs.
$(BUILD)/tests/unit $(if $(needs_all),$(BUILD)/tests/unit-$(TAG)): | $(programs) $(plugin) $(examples) \
  $(BUILD)/tests/fake_nvml.so
ifeq ($(TAG),examples)
$(BUILD)/tests/unit-$(TAG): | $(examples)
endif
$(BUILD)/tests/kernel: | $(addprefix $(BUILD)/tests/,inside escape list_tree fake_slurmstepd) $(programs) $(plugin)
ifneq ($(findstring x86_64,$(shell $(CXX) -dumpmachine)),)
$(BUILD)/tests/kernel: | $(BUILD)/tests/old_calls
endif
# Programs for images with nothing else in them, and for the box's first step into its namespaces: static.
$(BUILD)/tests/inside $(BUILD)/tests/list_tree $(BUILD)/tests/enter_box: $(BUILD)/tests/%: tests/fixtures/%.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O2 $(warnings) -static $< -o $@
# A program of i386, which machines of this kind run as well.
$(BUILD)/tests/old_calls: tests/fixtures/old_calls.c
	@mkdir -p $(@D)
	$(CC) -m32 -O1 -Wall -Wextra -ffreestanding -fno-pic -fno-pie -no-pie -fno-stack-protector -nostdlib -static $< -o $@
# Its data has the same place in each process: it reads that of others.
$(BUILD)/tests/escape: $(wildcard tests/hostile/escape/*.cc) tests/hostile/escape/escape.hh
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O1 $(warnings) -I. -static -fno-pie -no-pie $(filter %.cc,$^) -o $@

gpu_support := $(filter-out %_test.cc,$(wildcard tests/kernel/*.cc))
$(BUILD)/tests/gpu: $(call objects,$(gpu_sources) $(gpu_support) $(testable_sources)) $(archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(test_libraries) $(CXXFLAGS) $(LDFLAGS)
$(BUILD)/tests/gpu: | $(BUILD)/tests/inside $(programs)
$(BUILD)/obj/tests/gpu/%.o: CPPFLAGS += $(if $(NVCC),-DBERTH_NVCC) $(if $(cublas),-DBERTH_CUBLAS) \
  $(if $(nccl),-DBERTH_NCCL) $(if $(egl),-DBERTH_EGL) $(if $(vulkan),-DBERTH_VULKAN) \
  $(if $(opencl),-DBERTH_OPENCL) $(if $(video),-DBERTH_VIDEO)
$(BUILD)/tests/gpu_blas: cuda_libraries = -lcublas
$(BUILD)/tests/gpu_nccl: cuda_libraries = -lnccl
$(BUILD)/tests/gpu_%: tests/gpu/%.cu tests/gpu/cuda.cuh
	@mkdir -p $(@D)
	$(NVCC) -cudart static -O2 $< -o $@ $(cuda_libraries)
# For no GPU: the driver compiles it.
$(BUILD)/tests/gpu_jit: tests/gpu/sum.cu tests/gpu/cuda.cuh
	@mkdir -p $(@D)
	$(NVCC) -cudart static -O2 -gencode arch=compute_75,code=compute_75 $< -o $@
$(BUILD)/tests/gpu_egl: gpu_libraries = -lEGL -lGLESv2
$(BUILD)/tests/gpu_vulkan: gpu_libraries = -lvulkan
$(BUILD)/tests/gpu_vulkan: $(BUILD)/generated/vulkan.comp.inc
$(BUILD)/tests/gpu_opencl: gpu_libraries = -lOpenCL
$(BUILD)/tests/gpu_%: tests/gpu/programs/%.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O2 $(warnings) -I$(BUILD)/generated $< -o $@ $(gpu_libraries)
$(BUILD)/generated/vulkan.comp.inc: tests/gpu/programs/vulkan.comp
	@mkdir -p $(@D)
	glslangValidator -V -x -o $@ $< > $@.log
gpu-tests: $(BUILD)/tests/gpu $(gpu_programs:%=$(BUILD)/tests/gpu_%)

# Has what the plugin expects of Slurm among its symbols.
$(BUILD)/tests/fake_slurmstepd: \
    $(call objects,tests/fixtures/fake_slurmstepd.cc spank/slurm.cc) $(call archives_of,plan config request base)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) -rdynamic $^ -o $@ $(CXXFLAGS) $(LDFLAGS)

$(BUILD)/tests/fake_nvml.so: tests/fixtures/fake_nvml.cc tests/fixtures/fake_nvml_scene.hh \
  hooks/nvidia/nvml_types.hh runtime/mig/node/nvml_types.hh
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O2 $(warnings) -I. -shared -fPIC $< -o $@

# For bench-noise only. Static, since it runs in whatever image there is.
$(BUILD)/tests/noise: tests/bench/noise.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O2 -Wall -Wextra -static -pthread $< -o $@

# For bench-io only.
$(BUILD)/tests/serve: $(call objects,tests/bench/serve.cc $(filter-out %/main.cc,$(berth_sources))) $(berth_archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(start_libraries) $(CXXFLAGS) $(LDFLAGS)
# clang's libFuzzer with both sanitizers, in a folder of its own; optimised little and a folder of sources at a time, so
# that it builds soon.
FUZZ_CXX ?= clang++
SECONDS ?= 10
TARGETS ?=
fuzz:
	+$(MAKE) --no-print-directory fuzz-programs BUILD=build-fuzz CXX='$(FUZZ_CXX)' SAN=address,undefined UNITY=1 \
	  CXXFLAGS='-O1 -g1 -fsanitize=fuzzer-no-link'

# One link instead of one a target, which would take longer than all else.
fuzz-programs: $(BUILD)/fuzz-parsers
	@rm -rf $(BUILD)/fuzz
	@mkdir -p $(BUILD)/fuzz
	@for target in $(fuzz_targets); do ln -s ../fuzz-parsers $(BUILD)/fuzz/$$target || exit; done
fuzz_archives := $(call archives_of,migrate hooks trust host store oci squash plan telemetry config request base)
$(BUILD)/fuzz-parsers: $(call objects,$(fuzz_sources) $(fuzz_parsers)) $(fuzz_archives)
	@mkdir -p $(@D)
	$(CXX) $(base_flags) $(base_ldflags) $^ -o $@ $(pull_libraries) $(CXXFLAGS) -fsanitize=fuzzer $(LDFLAGS)

fuzz-run: fuzz
	scripts/fuzz $(SECONDS) $(TARGETS)

unit: $(BUILD)/tests/unit$(if $(TAG),-$(TAG))
	$(if $(TAG),$(if $(tagged_tests),,$(error TAG=$(TAG): no file of tests/unit has a test with this tag)))
	$< $(if $(TAG),'[$(TAG)]')

check: all tests check-lint check-layers check-rows check-fuzz check-messages check-consistency \
    $(if $(SAN)$(COV),,check-exports)
	$(BUILD)/tests/unit
	$(BUILD)/tests/kernel

check-layers check-lint check-messages check-rows check-fuzz:
	scripts/$@

# Each source of the programs and the plugin by itself, with BASE=REVISION those that have changed since: what a build
# with UNITY hides.
check-includes:
	@printf '%s\n' $(tidy_sources) | xargs -r -n 1 -P $$(nproc) $(CXX) $(filter-out -O% -g%,$(base_flags)) \
	  -U_FORTIFY_SOURCE -fsyntax-only $(package_flags) $(CPPFLAGS) $(if $(isal),-DBERTH_ISAL)

check-consistency: $(programs)
	scripts/check-consistency $(BUILD)

check-exports: $(plugin)
	$(if $(plugin),scripts/check-exports $(plugin))

compile_commands.json: Makefile $(all_sources)
	@python3 -c 'import json,os,sys; print(json.dumps([{"directory":os.getcwd(),"file":f, \
	    "command":sys.argv[1]+" -c "+f} for f in sys.argv[2:]],indent=1))' \
	  '$(lastword $(CXX)) $(subst ','\'',$(all_flags))' $(all_sources) > $@ 2>/dev/null || rm -f $@

# With BASE=REVISION only the sources that have changed since.
tidy_sources = $(filter-out tests/%,\
  $(if $(BASE),$(filter $(shell git diff --name-only $(BASE)),$(all_sources)),$(all_sources)))
tidy: compile_commands.json
	@printf '%s\n' $(tidy_sources) | xargs -r -n 1 -P $$(nproc) clang-tidy -quiet -p .

# Breaks the lines of C++ that are too long, and no others.
wrap:
	for file in $$(git ls-files '*.cc' '*.hh'); do \
	  lines=$$(awk 'length($$0) > 120 { printf " --lines=%d:%d", FNR, FNR }' $$file); \
	  [ -z "$$lines" ] || clang-format -i $$lines $$file; done

format:
	clang-format -i $(all_sources) \
	  $(wildcard runtime/*/*.hh runtime/*/*/*.hh runtime/*/*/*/*.hh hooks/*.hh hooks/*/*.hh spank/*.hh tests/*/*.hh)

include tests/bench/bench.mk rpm/packages.mk

clean:
	rm -rf build build-* compile_commands.json

define help_text
make TARGET:
all                the programs and the plugin; what `make` alone makes
plugin             the plugin alone; SLURM=PREFIX: for the Slurm that is installed there
tests              the programs of the unit and the kernel tests
unit               builds and runs the unit tests, nothing optimised; TAG=plan: those of this tag, and what they need
check              builds all of this, runs the unit and the kernel tests, and the checks below
check-layers       no folder includes what is in one above it
check-lint         scripts and sources by shellcheck, cppcheck and their like
check-messages     the messages are those of tests/messages.golden
check-rows         each row of the tables of hostile input names a test that is there
check-fuzz         each parser has a target for libFuzzer
check-includes     compiles each source by itself; BASE=REVISION: those that have changed since
check-consistency  programs, manual pages, completions and conf/berth.conf name the same commands, options and keys
check-exports      the plugin shows SPANK's symbols and no others
tidy               clang-tidy over the sources; BASE as above
wrap               breaks the lines of C++ that are too long
format             formats all of the C++
install            into PREFIX and SYSCONFDIR, below DESTDIR
install-files      of that, what is not compiled
install-enroot     Berth under the name enroot, too
install-apptainer  Berth under the names apptainer and singularity, too
install-mig        berth-mig and what calls it, too
deb                packages of Debian, in $(BUILD)/deb
rpm                packages of RHEL and its relatives
dist               the source as a tar file
tarball            the programs with their libraries as a tar file
fuzz               the programs that feed the parsers what nobody expects
fuzz-programs      of them, what links all targets
fuzz-run           runs them for SECONDS each, or TARGETS alone
cluster-model      the model of a cold start on many nodes
examples           the programs of docs/examples, which the unit tests run
gpu-tests          the programs of `scripts/test gpu`
bench-start        starts beside other runtimes
bench-readme       the table "What it costs" of README.md, all of it in one run; SHORT=yes ROWS=start,io
bench-srun         what a container adds to a step, in a box that is up
bench-hooks        what the hooks add to a start
bench-image        a pull of a large image beside its parts and other tools; SCALE is its size
bench-again        a pull when little or nothing is new
bench-early        starts of a large image over a slow link
bench-io           reading in an image beside a directory and the kernel's squashfs
bench-squashfs     the writer and the reader of squashfs files beside the libraries'; FOLDER is what is packed
bench-data         many small files in a squashfs file beside squashfuse_ll and a directory
bench-import       an import of Python's frameworks in a new container beside other mounts
bench-noise        what a container costs a program that computes on all CPUs
bench-gpu          what a container costs on a node with a GPU
bench-ab           two builds beside each other: WHAT=io|start AB='with=build without=/other/build'
pictures           the pictures of docs/cluster.md, from cold starts in a box
soak               a thousand starts and two hundred kills in a box that is up
soak-run           the same outside of Slurm
clean              removes all builds
help               this text
settings: PREFIX=$(PREFIX) DESTDIR= SYSCONFDIR=$(SYSCONFDIR) LIBEXECDIR=$(LIBEXECDIR) MANDIR=$(MANDIR)
          SLURM=$(SLURM) SLURM_PLUGIN_DIR=$(SLURM_PLUGIN_DIR) DATADIR=$(DATADIR) LOCALSTATEDIR=$(LOCALSTATEDIR)
          BASH_COMPLETION_DIR=$(BASH_COMPLETION_DIR) ZSH_COMPLETION_DIR=$(ZSH_COMPLETION_DIR)
          SAN=address,undefined | thread   COV=1   ISAL=$(ISAL)   STATIC=   PCH=1   UNITY=1
          OPTIMIZE=$(OPTIMIZE)   CCACHE=$(CCACHE)   SCALE=$(SCALE)
          SECONDS=$(SECONDS)   TARGETS=$(TARGETS)   BUILD=$(BUILD)   CXX CXXFLAGS LDFLAGS
endef
help:
	@:$(info $(help_text))

-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
