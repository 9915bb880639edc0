SWIFT ?= swift
export SWIFT

ifneq ($(shell uname -s),Darwin)
  STATIC := --static-swift-stdlib
endif
RELEASE := -c release $(STATIC) --product tunneld

.PHONY: all check test run release format lint docs clean

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

format:
	$(SWIFT) format --in-place --parallel --recursive Package.swift Sources Tests

lint:
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests

docs:
	scripts/missing-docs

clean:
	$(SWIFT) package clean
	rm -rf dist
