# wsd. `make` alone prints the targets. A machine with Go and make is enough for
# `make serve` and `make test`; what else a target needs it says or installs into
# .cache/, which git ignores.

GO             ?= go
GO_WANT        := 1.26
GOLANGCI       := v2.15.0
GOVULNCHECK    := v1.9.0
CODEX          := 0.171.0
MUTAGEN        := v0.18.1
LISTEN         ?= ws://127.0.0.1:45678
FUZZTIME       ?= 60s
TEST_TIMEOUT   ?= 10m
RACE_TIMEOUT   ?= 20m
PLATFORMS      ?= linux/amd64 linux/arm64 darwin/arm64

CACHE          := $(CURDIR)/.cache
LINTER         := $(CACHE)/bin/golangci-lint-$(GOLANGCI)
VULNCHECK      := $(CACHE)/bin/govulncheck-$(GOVULNCHECK)
MUTAGEN_BIN    := $(CACHE)/bin/mutagen-$(MUTAGEN)
CODEX_BIN      := $(CACHE)/npm/codex-$(CODEX)/node_modules/.bin/codex
CAPNWEB        := 0.8.0 0.10.0 0.12.0
CAPNWEB_DIR    := $(CACHE)/npm/capnweb
CAPNWEB_READY  := $(CAPNWEB_DIR)/node_modules/ws/package.json
COMPUTER       := 0.2.1 0.3.1 0.6.0 0.8.0
COMPUTER_DIR   := $(CACHE)/npm/computer
COMPUTER_READY := $(COMPUTER:%=$(COMPUTER_DIR)/%/node_modules/@cloudflare/computer/package.json)
NODE           := 24.21.0
NODE_BIN       := $(CACHE)/npm/node-$(NODE)/node_modules/node/bin/node
MINIFLARE      := miniflare@4.20260730.0 esbuild@0.28.2
MINIFLARE_DIR  := $(CACHE)/npm/miniflare
MINIFLARE_READY := $(MINIFLARE_DIR)/node_modules/miniflare/package.json
TAGS           := e2e,interop,attack

# What `wsd version` prints. Without a tag or without git the program says so itself.
VERSION        ?= $(shell git describe --tags --match 'v*' 2>/dev/null | sed 's/^v//')
COMMIT         ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE           ?= $(shell git log -1 --format=%cI 2>/dev/null)
DIRTY          ?= $(shell test -z "$$(git status --porcelain 2>/dev/null)" || echo true)
LDFLAGS        := -s -w $(strip $(foreach v,Version=$(VERSION) Commit=$(COMMIT) Date=$(DATE) Dirty=$(DIRTY),-X main.build$(v)))
# Without its traces, which nobody serves, grpc needs no html/template. With it the linker
# keeps each exported method: 5 MB.
BUILD          := CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags '$(LDFLAGS)'

# git refuses to look into a clone that belongs to another user, and `go build`
# fails with it; the version comes from the flags above instead.
export GOFLAGS := $(strip -buildvcs=false $(GOFLAGS))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help go serve build test race fuzz chaos e2e soak attack interop lint vuln fmt cover bench bench-peer bench-relay bench-sync \
	bench-workspace proto docs cross release ci clean distclean

help: ## print the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS="$$(printf '\t')" read -r t d; do printf '  %-15s %s\n' "$$t" "$$d"; done

go:
	@command -v $(GO) >/dev/null 2>&1 || { \
		echo "make: '$(GO)' is not on the PATH. wsd needs Go $(GO_WANT) or newer: install it, or say where it is with make GO=/path/to/go" >&2; exit 1; }
	@v=$$($(GO) env GOVERSION) || { \
		echo "make: '$(GO) env' fails; wsd needs Go $(GO_WANT) or newer" >&2; exit 1; }; \
	echo "$${v#go} $(GO_WANT)" | awk '{ split($$1, a, "."); split($$2, b, "."); exit !(a[1]+0 > b[1]+0 || (a[1]+0 == b[1]+0 && a[2]+0 >= b[2]+0)) }' || { \
		echo "make: $$v is too old. wsd needs Go $(GO_WANT) or newer (GOTOOLCHAIN=auto lets an older Go fetch it)" >&2; exit 1; }

serve: build ## build wsd and serve this directory on LISTEN (ws://127.0.0.1:45678)
	@exec ./bin/wsd serve --listen $(LISTEN)

build: go ## build bin/wsd, static
	@mkdir -p bin
	$(BUILD) -o bin/wsd ./cmd/wsd

test: go ## run the tests
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

# SQLite, translated from C, is not looked into: it would take most of the time of tests that
# use it. Packages with generic functions must be, whose copies of them ours may be linked
# with. A binary that looks for races sleeps a second as it ends unless it is told not to.
# What vet finds, make test and make lint have found.
race: go ## run the tests under the race detector (needs a C compiler)
	@command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null 2>&1 || { echo "make: the race detector needs a C compiler; '$$($(GO) env CC)' is not on the PATH" >&2; exit 1; }
	GORACE=atexit_sleep_ms=10 CGO_ENABLED=1 $(GO) test -race '-gcflags=modernc.org/sqlite/lib=-race=false' -vet=off -p 2 -timeout $(RACE_TIMEOUT) ./...

# Two at a time, of one worker each: half of what a target takes is to build it. Go before
# 1.27 may call it a failure that the time is up while an input runs, without an input that
# fails: golang/go#75804.
fuzz: go ## run every fuzz target for FUZZTIME (60s)
	@mkdir -p $(CACHE)/fuzz
	@grep -rE '^func Fuzz' --include='*_test.go' . | sed 's|/[^/]*:func \(Fuzz[A-Za-z0-9_]*\)(.*| \1|' | sort -k 2 | xargs -P 2 -n 2 sh -c ' \
		log=$(CACHE)/fuzz/$$1$$(echo "$$0" | tr /. _-).log; failed=; \
		echo "fuzz $$1 ($$0)" >$$log; \
		$(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 "$$0" </dev/null >>$$log 2>&1 || failed=yes; \
		cat $$log; \
		if [ "$$failed" ]; then \
			grep -q "^    context deadline exceeded$$" $$log && ! grep -q "Failing input\|panic" $$log || exit 1; \
			echo "no input failed: golang/go#75804"; \
		fi'

CHAOS ?= 3
CHAOS_PKGS ?= ./...
chaos: go ## run the tests of CHAOS_PKGS (all) CHAOS times (3), each use of a channel or a mutex disturbed
	$(GO) run ./cmd/wsd/chaos -count=$(CHAOS) -p 2 -timeout 60m $(CHAOS_PKGS)

e2e: build ## run bin/wsd long and hard, from outside
	WSD_BIN=$(CURDIR)/bin/wsd $(GO) test -tags e2e -count=1 -p 1 -timeout 20m ./cmd/wsd/endurance/ ./cmd/wsd/soak/ ./bench/peer/ ./bench/synctools/
	WSD_BIN=$(CURDIR)/bin/wsd $(GO) test -tags e2e -count=1 -p 2 -timeout 20m ./cmd/wsd/netem/ ./cmd/wsd/crash/

SOAK ?= 10m
PLANS ?= 10
MODEL := $(GO) test -count=1 -timeout 60m
soak: build ## write on both sides of a sync in trouble for SOAK (10m); PLANS (10) times the models' random plans
	WSD_SOAK=$(SOAK) WSD_BIN=$(CURDIR)/bin/wsd $(GO) test -tags e2e -count=1 -timeout 60m -v ./cmd/wsd/soak/
	$(MODEL) -run '^(TestModel|TestSH8Model|TestTwoWriters)$$' ./client/mirror/ -rapid.checks=$$((100 * $(PLANS)))
	$(MODEL) -run '^TestTwoWritersOnDisk$$' ./client/mirror/ -rapid.checks=$$((12 * $(PLANS)))
	$(MODEL) -run '^TestModel$$' ./fs/changes/ -rapid.checks=$$((2000 * $(PLANS)))
	$(MODEL) -run '^TestModel(Disk|SQLite)$$' ./fs/changes/ -rapid.checks=$$((30 * $(PLANS)))
	$(MODEL) -run '^TestModel$$' ./fs/disk/ -rapid.checks=$$((24 * $(PLANS)))

ATTACK_FLAGS ?=
attack: build ## do to bin/wsd what an attacker would (ATTACK_FLAGS=-short: three minutes)
	WSD_BIN=$(CURDIR)/bin/wsd $(GO) test -tags attack -count=1 -timeout 60m $(ATTACK_FLAGS) ./cmd/wsd/attack/

INTEROP := WSD_BIN=$(CURDIR)/bin/wsd CODEX_BIN=$(CODEX_BIN) NODE_BIN=$(NODE_BIN) COMPUTER_DIR=$(COMPUTER_DIR) CAPNWEB_DIR=$(CAPNWEB_DIR) \
	MINIFLARE_DIR=$(MINIFLARE_DIR) $(GO) test -tags interop -count=1 -timeout 20m

interop: build clients ## drive bin/wsd with the real codex and computer clients, and capnweb with npm's (needs npm)
	$(INTEROP) -p 2 ./cmd/wsd/interop/ ./cmd/wsd/interop/computer/
	$(INTEROP) -run Interop ./protocol/capnweb/

.PHONY: clients interop-computer
clients: $(CODEX_BIN) $(CAPNWEB_READY) $(COMPUTER_READY) $(NODE_BIN) $(MINIFLARE_READY)

interop-computer: build clients
	$(INTEROP) ./cmd/wsd/interop/computer/

lint: go $(LINTER) ## lint (builds the linter once, some minutes)
	$(LINTER) run --allow-serial-runners --build-tags $(TAGS) ./...
	$(LINTER) fmt --diff
	$(GO) test -count=1 -run '^TestPlainWords$$' ./cmd/wsd/layers/

vuln: go $(VULNCHECK) ## look for known vulnerabilities (fetches Go's vulnerability database)
	$(VULNCHECK) -tags $(TAGS) ./...

fmt: go $(LINTER) ## format the code
	$(LINTER) fmt

cover: go ## measure test coverage, into .cache/cover.html
	@mkdir -p $(CACHE)
	$(GO) test -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=$(CACHE)/cover.out ./...
	$(GO) tool cover -html=$(CACHE)/cover.out -o $(CACHE)/cover.html
	$(GO) tool cover -func=$(CACHE)/cover.out | tail -n 1

bench: go ## run the benchmarks of the packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-peer: build $(CODEX_BIN) ## measure bin/wsd beside the real codex exec-server (needs npm)
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/bench-peer ./bench/peer
	$(CACHE)/bench-peer --wsd bin/wsd --codex $(CODEX_BIN) --dir $(CACHE) $(BENCH_FLAGS)

bench-relay: build $(CODEX_BIN) ## measure the relay beside a direct way and the real codex executor (needs npm)
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/bench-relay ./bench/relay
	$(CACHE)/bench-relay --wsd bin/wsd --codex $(CODEX_BIN) --dir $(CACHE) $(BENCH_FLAGS)

SYNC_SCALE ?= full
bench-sync: build $(MUTAGEN_BIN) ## measure wsd sync beside mutagen, rsync and unison (SYNC_SCALE=small: one minute)
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/bench-sync ./bench/synctools
	$(CACHE)/bench-sync --wsd bin/wsd --mutagen $(MUTAGEN_BIN) --dir $(CACHE) --scale $(SYNC_SCALE) $(BENCH_FLAGS)

bench-workspace: build ## measure the calls of a served workspace, beside rsync and git (needs both)
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/bench-workspace ./bench/workspace
	$(CACHE)/bench-workspace --wsd bin/wsd --dir $(CACHE) $(BENCH_FLAGS)

proto: go ## generate the code of the relay's frames again
	$(GO) run ./proto/protogen

docs: build ## write the man pages and completions into dist/
	@mkdir -p dist/man dist/completion
	./bin/wsd man --dir dist/man
	@for shell in bash zsh fish; do ./bin/wsd completion $$shell > dist/completion/wsd.$$shell; done
	@ls dist/man dist/completion

cross: go ## build for every platform, into dist/; Linux must be static and small
	@mkdir -p dist
	@set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*}; arch=$${platform#*/}; out=dist/wsd-$$os-$$arch; \
		echo "build $$out"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o $$out ./cmd/wsd; \
	done
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet -trimpath -tags $(TAGS) ./...
	WSD_DIST=$(CURDIR)/dist $(GO) test -count=1 -run '^TestReleaseBinaries$$' ./cmd/wsd/layers/

release: PLATFORMS += darwin/amd64
release: cross docs ## pack dist/ for a release
	@set -e; cd dist; rm -f *.tar.gz SHA256SUMS; \
	for binary in wsd-*-*; do \
		rm -rf pack; mkdir pack; cp "$$binary" pack/wsd; cp -r man completion ../README.md pack/; \
		tar -czf "$$binary$(VERSION:%=-%).tar.gz" -C pack .; rm -rf pack; \
	done; \
	sha256sum *.tar.gz > SHA256SUMS; cat SHA256SUMS

# The clients come over the network meanwhile.
ci: go ## what a change must pass: lint, race, endurance, attacks, interop, cross builds
	@mkdir -p $(CACHE)
	@set -e; $(MAKE) --no-print-directory clients >$(CACHE)/clients.log 2>&1 & clients=$$!; \
	trap 'kill $$clients 2>/dev/null || :' EXIT; \
	for step in lint race e2e 'attack ATTACK_FLAGS=-short' interop cross; do \
		if [ "$$step" = e2e ]; then wait $$clients || { cat $(CACHE)/clients.log >&2; exit 1; }; fi; \
		printf '\n== make %s\n' "$$step"; start=$$(date +%s); \
		$(MAKE) --no-print-directory $$step; \
		printf '== make %s: %s s\n' "$$step" $$(($$(date +%s) - start)); \
	done

clean: ## remove what was built
	rm -rf bin dist $(CACHE)/bench-peer $(CACHE)/bench-relay $(CACHE)/bench-sync $(CACHE)/bench-workspace $(CACHE)/cover.*

distclean: clean ## remove the tools in .cache/ too
	rm -rf $(CACHE)

$(LINTER): | go
	@mkdir -p $(CACHE)/bin
	@echo "building golangci-lint $(GOLANGCI), once"
	GOBIN=$(CACHE)/bin/new CGO_ENABLED=0 $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv $(CACHE)/bin/new/golangci-lint $@ && rmdir $(CACHE)/bin/new

$(VULNCHECK): | go
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CACHE)/bin/new CGO_ENABLED=0 $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@mv $(CACHE)/bin/new/govulncheck $@ && rmdir $(CACHE)/bin/new

# Its go.mod replaces a module, which go install refuses: it is built where it lies.
$(MUTAGEN_BIN): | go
	@mkdir -p $(CACHE)/bin
	@echo "building mutagen $(MUTAGEN), once"
	dir=$$(cd / && $(GO) mod download -json github.com/mutagen-io/mutagen@$(MUTAGEN) | sed -n 's/^.*"Dir": "\(.*\)",$$/\1/p') && \
		test -n "$$dir" && cd "$$dir" && GOWORK=off CGO_ENABLED=0 $(GO) build -trimpath -tags mutagencli -o $@ ./cmd/mutagen

.PHONY: npm
npm:
	@command -v npm >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends nodejs npm; } || { \
		echo "make: the real clients come from npm, which is not on the PATH; install Node.js with npm" >&2; exit 1; }

$(CODEX_BIN): | npm
	@mkdir -p $(CACHE)/npm/codex-$(CODEX)
	npm install --prefix $(CACHE)/npm/codex-$(CODEX) --no-audit --no-fund --loglevel=error @openai/codex@$(CODEX) </dev/null
	@test -x $@

# The versions of its protocol, each under a name of its own.
$(CAPNWEB_READY): | npm
	@mkdir -p $(CAPNWEB_DIR)
	npm install --prefix $(CAPNWEB_DIR) --no-audit --no-fund --loglevel=error \
		$(foreach v,$(CAPNWEB),capnweb-$(word 2,$(subst ., ,$(v)))@npm:capnweb@$(v)) ws@8 </dev/null

# The client of Cloudflare's computer, each version with the libraries that it wants, a
# Node that it runs on, and what a Durable Object runs in.
NPM_INSTALL := npm install --no-audit --no-fund --loglevel=error

$(COMPUTER_READY): $(COMPUTER_DIR)/%/node_modules/@cloudflare/computer/package.json: | npm
	@mkdir -p $(COMPUTER_DIR)/$*
	$(NPM_INSTALL) --prefix $(COMPUTER_DIR)/$* @cloudflare/computer@$* </dev/null

$(NODE_BIN): | npm
	@mkdir -p $(CACHE)/npm/node-$(NODE)
	$(NPM_INSTALL) --prefix $(CACHE)/npm/node-$(NODE) node@$(NODE) </dev/null
	@test -x $@

$(MINIFLARE_READY): | npm
	@mkdir -p $(MINIFLARE_DIR)
	$(NPM_INSTALL) --prefix $(MINIFLARE_DIR) $(MINIFLARE) </dev/null
