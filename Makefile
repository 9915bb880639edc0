SWIFT ?= swift
export SWIFT

BENCHMARKS := $(CURDIR)/.build/benchmarks
# What `swift build` is called with for the program as it is installed and measured.
RELEASE = $(shell scripts/release-flags)

.PHONY: all check test run release bench bench-usb bench-counts bench-programs format lint docs clean install deb

# A debug build.
all:
	$(SWIFT) build

# Everything that must hold before a commit: format, no warnings, documentation, tests.
check:
	scripts/check

test:
	$(SWIFT) test

# Forwards port 8765 to the simulated phone.
run:
	scripts/quickstart

# dist/tunneld, stripped and without need of a Swift installation, and dist/iproxy, the same under iproxy's name.
release:
	$(SWIFT) build $(RELEASE)
	mkdir -p dist
	install -m 755 "$$($(SWIFT) build $(RELEASE) --show-bin-path)/tunneld" dist/tunneld
	strip dist/tunneld
	ln -sf tunneld dist/iproxy

# Where things are installed. DESTDIR stands before all of them.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR ?= $(PREFIX)/lib/systemd/system
UDEVDIR ?= $(PREFIX)/lib/udev
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
ZSHDIR ?= $(DATADIR)/zsh/site-functions
# `make install IPROXY=yes` also installs the program under iproxy's name.
IPROXY ?= no

dist/tunneld:
	$(MAKE) release

install: dist/tunneld
	install -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(DATADIR)/man/man8" "$(DESTDIR)$(DATADIR)/man/man5"
	install -m 755 dist/tunneld "$(DESTDIR)$(BINDIR)/tunneld"
	if [ "$(IPROXY)" = yes ]; then ln -sf tunneld "$(DESTDIR)$(BINDIR)/iproxy"; fi
	install -m 644 man/man8/tunneld.8 "$(DESTDIR)$(DATADIR)/man/man8/tunneld.8"
	install -m 644 man/man5/tunneld.conf.5 "$(DESTDIR)$(DATADIR)/man/man5/tunneld.conf.5"
	install -D -m 644 completions/tunneld.bash "$(DESTDIR)$(DATADIR)/bash-completion/completions/tunneld"
	install -D -m 644 completions/_tunneld "$(DESTDIR)$(ZSHDIR)/_tunneld"
	install -D -m 644 completions/tunneld.fish "$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/tunneld.fish"
	install -d "$(DESTDIR)$(DATADIR)/doc/tunneld"
	install -m 644 README.md CHANGELOG.md docs/*.md "$(DESTDIR)$(DATADIR)/doc/tunneld"
ifeq ($(shell uname -s),Darwin)
	install -m 644 launchd/tunneld.plist "$(DESTDIR)$(DATADIR)/doc/tunneld"
else
	install -d "$(DESTDIR)$(UNITDIR)" "$(DESTDIR)$(SYSCONFDIR)/tunneld"
	for unit in systemd/*.service systemd/*.socket systemd/*.target; do \
	  sed -e 's|/usr/bin/tunneld|$(BINDIR)/tunneld|' -e 's|/etc/tunneld|$(SYSCONFDIR)/tunneld|' "$$unit" \
	    >"$(DESTDIR)$(UNITDIR)/$${unit#systemd/}" && chmod 644 "$(DESTDIR)$(UNITDIR)/$${unit#systemd/}" || exit 1; \
	done
	install -D -m 644 udev/70-tunneld.rules "$(DESTDIR)$(UDEVDIR)/rules.d/70-tunneld.rules"
	install -D -m 644 systemd/sysusers.d/tunneld.conf "$(DESTDIR)$(SYSUSERSDIR)/tunneld.conf"
	install -D -m 644 systemd/tmpfiles.d/tunneld.conf "$(DESTDIR)$(TMPFILESDIR)/tunneld.conf"
	[ -e "$(DESTDIR)$(SYSCONFDIR)/tunneld/tunneld.conf" ] || \
	  install -m 644 etc/tunneld.conf "$(DESTDIR)$(SYSCONFDIR)/tunneld/tunneld.conf"
endif

# dist/*.deb, for the Debian that this runs on.
deb:
	scripts/build-deb

# Linux. Measures against the installed peers, in rounds that take turns, and writes the table into
# docs/PERFORMANCE.md. BENCH holds more options: `make bench BENCH="--rounds 9"`.
bench: bench-programs
	$(SWIFT) build $(RELEASE:tunneld=device-path)
	$(BENCHMARKS)/bench --write docs/PERFORMANCE.md $(BENCH) \
	  "tunneld=$$($(SWIFT) build $(RELEASE) --show-bin-path)/tunneld --usbmuxd UNIX:{socket} {port}:{devport}"
	$$($(SWIFT) build $(RELEASE) --show-bin-path)/device-path

# Linux. Over emulated USB devices (umockdev), against a bare libusb loop, and usbmuxd with iproxy where they are
# installed. BENCH holds more options: `make bench-usb BENCH="--rounds 9 --speed 400"`.
bench-usb: bench-programs
	$(SWIFT) build $(RELEASE:tunneld=usb-emulator)
	$(MAKE) --no-print-directory -C Benchmarks OUT=$(BENCHMARKS) usb
	$(BENCHMARKS)/usb-bench --write docs/PERFORMANCE.md $(BENCH) $(BENCHMARKS) \
	  "$$($(SWIFT) build $(RELEASE) --show-bin-path)/usb-emulator" "$$($(SWIFT) build $(RELEASE) --show-bin-path)/tunneld"

# Linux. Holds system calls, instructions and allocations against Benchmarks/counts.txt. COUNTS=--record writes it anew.
bench-counts: bench-programs
	Benchmarks/counts $(COUNTS) "$$($(SWIFT) build $(RELEASE) --show-bin-path)/tunneld"

bench-programs:
	$(SWIFT) build $(RELEASE)
	$(MAKE) --no-print-directory -C Benchmarks OUT=$(BENCHMARKS)

format:
	$(SWIFT) format --in-place --parallel --recursive Package.swift Sources Tests Benchmarks

lint:
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests Benchmarks

# The library's documentation, as pages in .build/documentation.
docs:
	scripts/build-docs

clean:
	$(SWIFT) package clean
	rm -rf dist
