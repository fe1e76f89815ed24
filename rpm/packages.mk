# What is installed, and the packages made of it; included by Makefile.

install: $(programs) $(plugin)
	@$(MAKE) --no-print-directory install-files

# The one list of what is installed, of what is built already: the packages are made of such a tree
# (scripts/package-files).
# Settings that are there already stay as they are.
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXECDIR)/berth $(DESTDIR)$(SLURM_PLUGIN_DIR) \
	  $(DESTDIR)$(SYSCONFDIR)/berth/hooks.d $(DESTDIR)$(DATADIR)/berth \
	  $(DESTDIR)$(DATADIR)/doc/berth/examples/hooks.d $(DESTDIR)$(DATADIR)/doc/berth-slurm
	install -d -m 755 $(DESTDIR)$(LOCALSTATEDIR)/lib/berth
	install -m 755 $(BUILD)/berth $(DESTDIR)$(PREFIX)/bin/berth
	install -m 755 $(BUILD)/berth-pull $(DESTDIR)$(LIBEXECDIR)/berth/berth-pull
	install -m 644 $(plugin) $(DESTDIR)$(SLURM_PLUGIN_DIR)/spank_berth.so
	test -e $(DESTDIR)$(SYSCONFDIR)/berth/berth.conf || \
	  install -m 644 conf/berth.conf $(DESTDIR)$(SYSCONFDIR)/berth/berth.conf
	sed 's|@BINDIR@|$(PREFIX)/bin|' conf/plugstack.conf | \
	  install -m 644 /dev/stdin $(DESTDIR)$(DATADIR)/berth/plugstack.conf
	for page in $(filter-out man/enroot.1 man/apptainer.1 man/berth-mig.8,$(wildcard man/*.[1-8])); do \
	  section=$${page##*.}; \
	  install -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$$section/$${page##*/}; done
	install -m 755 $(wildcard conf/examples/*) $(DESTDIR)$(DATADIR)/doc/berth/examples
	install -D -m 644 conf/completions/berth.bash $(DESTDIR)$(BASH_COMPLETION_DIR)/berth
	install -D -m 644 conf/completions/_berth $(DESTDIR)$(ZSH_COMPLETION_DIR)/_berth
	install -D -m 644 conf/completions/berth.fish $(DESTDIR)$(FISH_COMPLETION_DIR)/berth.fish
	install -m 644 README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE \
	  $(DESTDIR)$(DATADIR)/doc/berth
	install -d $(DESTDIR)$(DATADIR)/doc/berth/docs/install $(DESTDIR)$(DATADIR)/doc/berth/docs/adr \
	  $(DESTDIR)$(DATADIR)/doc/berth/docs/pictures $(DESTDIR)$(DATADIR)/doc/berth/examples/apparmor \
	  $(DESTDIR)$(DATADIR)/doc/berth/examples/selinux
	install -m 644 $(wildcard docs/*.md) $(DESTDIR)$(DATADIR)/doc/berth/docs
	install -m 644 $(wildcard docs/install/*.md) $(DESTDIR)$(DATADIR)/doc/berth/docs/install
	install -m 644 $(wildcard docs/adr/*.md) $(DESTDIR)$(DATADIR)/doc/berth/docs/adr
	install -m 644 $(wildcard docs/pictures/*) $(DESTDIR)$(DATADIR)/doc/berth/docs/pictures
	install -d $(DESTDIR)$(DATADIR)/doc/berth/examples/systemd
	install -m 644 $(wildcard conf/systemd/*) $(DESTDIR)$(DATADIR)/doc/berth/examples/systemd
	sed 's|@BINDIR@|$(PREFIX)/bin|' conf/apparmor/berth | \
	  install -m 644 /dev/stdin $(DESTDIR)$(DATADIR)/doc/berth/examples/apparmor/berth
	install -m 644 conf/selinux/berth.cil $(DESTDIR)$(DATADIR)/doc/berth/examples/selinux/berth.cil
	install -m 644 LICENSE $(DESTDIR)$(DATADIR)/doc/berth-slurm
	install -m 644 $(wildcard conf/hooks.d/*.example) $(DESTDIR)$(DATADIR)/doc/berth/examples/hooks.d

# The front end for Enroot's users, beside an installed berth: only when it is asked for, since the name may be taken.
install-enroot:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(DATADIR)/doc/berth-enroot
	ln -sf berth $(DESTDIR)$(PREFIX)/bin/enroot
	install -D -m 644 man/enroot.1 $(DESTDIR)$(MANDIR)/man1/enroot.1
	install -D -m 644 conf/completions/enroot.bash $(DESTDIR)$(BASH_COMPLETION_DIR)/enroot
	install -D -m 644 conf/completions/_enroot $(DESTDIR)$(ZSH_COMPLETION_DIR)/_enroot
	install -m 644 LICENSE $(DESTDIR)$(DATADIR)/doc/berth-enroot

# The same for Apptainer's users.
install-apptainer:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(DATADIR)/doc/berth-apptainer $(DESTDIR)$(MANDIR)/man1 \
	  $(DESTDIR)$(BASH_COMPLETION_DIR)
	for name in apptainer singularity; do ln -sf berth $(DESTDIR)$(PREFIX)/bin/$$name; done
	install -m 644 man/apptainer.1 $(DESTDIR)$(MANDIR)/man1/apptainer.1
	ln -sf apptainer.1 $(DESTDIR)$(MANDIR)/man1/singularity.1
	install -m 644 conf/completions/apptainer.bash $(DESTDIR)$(BASH_COMPLETION_DIR)/apptainer
	ln -sf apptainer $(DESTDIR)$(BASH_COMPLETION_DIR)/singularity
	install -D -m 644 conf/completions/_apptainer $(DESTDIR)$(ZSH_COMPLETION_DIR)/_apptainer
	install -m 644 LICENSE $(DESTDIR)$(DATADIR)/doc/berth-apptainer

# The program that divides GPUs for jobs, for the sites that have Slurm run it.
install-mig:
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(DATADIR)/doc/berth-mig/examples
	install -m 755 $(BUILD)/berth-mig $(DESTDIR)$(PREFIX)/sbin/berth-mig
	install -D -m 644 man/berth-mig.8 $(DESTDIR)$(MANDIR)/man8/berth-mig.8
	install -D -m 644 conf/completions/berth-mig.bash $(DESTDIR)$(BASH_COMPLETION_DIR)/berth-mig
	install -D -m 644 conf/completions/_berth-mig $(DESTDIR)$(ZSH_COMPLETION_DIR)/_berth-mig
	for file in $(wildcard conf/mig/*); do sed 's|/usr/sbin|$(PREFIX)/sbin|' $$file | \
	  install -m 644 /dev/stdin $(DESTDIR)$(DATADIR)/doc/berth-mig/examples/$${file##*/}; done
	install -m 644 LICENSE $(DESTDIR)$(DATADIR)/doc/berth-mig

# Debian packages of what is built here, in $(BUILD)/deb.
deb: $(BUILD)/deb/made
$(BUILD)/deb/made: $(programs) $(plugin) Makefile rpm/packages.mk scripts/make-debs scripts/package-files \
    $(wildcard *.md docs/*.md docs/*/* conf/* conf/*/* man/* rpm/debian/* rpm/debian/*/*)
	scripts/make-debs $(BUILD) $(VERSION)
	@touch $@

# The packages of rpm/berth.spec, built and tested from what is committed. RPMBUILD_FLAGS=--nodeps where the build's
# needs were not installed by rpm.
rpm:
	@mkdir -p $(BUILD)/rpm/SOURCES
	git archive --prefix=berth-$(VERSION)/ -o $(BUILD)/rpm/SOURCES/berth-$(VERSION).tar.gz HEAD
	rpmbuild -bb --define '_topdir $(abspath $(BUILD)/rpm)' $(RPMBUILD_FLAGS) rpm/berth.spec

# The programs with their libraries, to be unpacked anywhere: for login nodes (docs/install.md).
tarball: $(BUILD)/berth $(BUILD)/portable/berth-pull
	scripts/make-tarball $(BUILD) $(VERSION)

# The sources of what is committed, their checksum, and with KEY=ID a detached signature of it: see docs/release.md.
dist:
	@mkdir -p $(BUILD)/dist
	git archive --prefix=berth-$(VERSION)/ HEAD | gzip -9n > $(BUILD)/dist/berth-$(VERSION).tar.gz
	cd $(BUILD)/dist && sha256sum berth-$(VERSION).tar.gz > SHA256SUMS
	$(if $(KEY),gpg --batch --yes --armor --detach-sign --local-user '$(KEY)' -o $(BUILD)/dist/SHA256SUMS.asc \
	  $(BUILD)/dist/SHA256SUMS)
