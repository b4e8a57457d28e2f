# meshnode: `make help` lists the targets. Sources are found, not listed.
# CC=clang and SANITIZE=address,undefined (or thread) build beside the plain build.
CC       = gcc
PREFIX  ?= /usr/local
SANITIZE =
WERROR   = -Werror
comma   := ,
B       := build/$(CC)$(if $(SANITIZE),-$(subst $(comma),+,$(SANITIZE)))

install  = tests/support/deps.sh build $(filter clang,$(CC))

# `make deps all`: make looks for the compiler and the libraries when it starts. So what follows deps is left to another
# make, which starts when deps is done.
after   := $(if $(filter deps,$(MAKECMDGOALS)),$(filter-out deps,$(MAKECMDGOALS)))
ifneq ($(after),)
.PHONY: deps $(after)
$(after): deps
	@:
deps:
	@$(install)
	@$(MAKE) --no-print-directory $(after)
else

# A compiler for another machine (CC=aarch64-linux-gnu-gcc) takes libraries from SYSROOT: the tree that make check-arm
# fills, or the root, where Debian's multiarch packages are.
target  := $(shell $(CC) -dumpmachine 2>/dev/null)
cross   := $(if $(filter $(shell uname -m)-%,$(target)),,$(target))
SYSROOT ?= $(if $(cross),$(wildcard build/sysroot-$(cross)))
sysroot := $(if $(SYSROOT),--sysroot=$(abspath $(SYSROOT)))

packages = libzmq libczmq $(msgpack) yaml-0.1 jansson libsodium libxxhash zlib libpng libjpeg
pc       = $(if $(cross),PKG_CONFIG_SYSROOT_DIR=$(abspath $(SYSROOT)) \
    PKG_CONFIG_LIBDIR=$(abspath $(SYSROOT))/usr/lib/$(cross)/pkgconfig:$(abspath $(SYSROOT))/usr/share/pkgconfig) pkg-config
msgpack := $(shell $(pc) --exists msgpack-c >/dev/null 2>&1 && echo msgpack-c || echo msgpack) # by version
pc_flags := $(patsubst -I%,-isystem %,$(shell $(pc) --cflags $(packages) 2>/dev/null))
pc_libs  := $(shell $(pc) --libs $(packages) 2>/dev/null)
ready     = $(if $(target),,$(error $(CC) is not installed: make deps first))$(if $(pc_libs),,$(error libraries or pkg-config are missing: make deps first))
CFLAGS   = -O2 -gdwarf-4
ALL_CFLAGS = $(ready)-std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -UNDEBUG -ffp-contract=off -fno-math-errno -fno-trapping-math \
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-qual \
    -Wformat=2 -Wundef -Wdouble-promotion $(WERROR) -I. $(pc_flags) -MMD -MP \
    $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined) $(sysroot) $(CFLAGS)
LDLIBS   = $(pc_libs) -lm -lpthread
LDFLAGS  = $(sysroot) $(if $(SANITIZE),-fsanitize=$(SANITIZE))

# One short line per file. V=1: the commands. make -s: nothing. make demo: how far it is, where TODO is the number of files.
quiet     = $(if $(V),,@)
says      = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,; echo '  $1')
progress  = $(eval DONE += x); printf 'compiling %d of %d files$(if $(MAKE_TERMOUT),\r,\n)' $(words $(DONE)) $(TODO)
define compile =
@mkdir -p $(@D)$(if $(TODO),$(progress),$(call says,CC $<$(if $2, ($2))))
$(quiet)$(CC) $(ALL_CFLAGS) $1 -c -o $@ $<
endef
define link =
@mkdir -p $(@D)$(call says,LD $@)
$(quiet)$(CC) $(LDFLAGS) $1 -o $@ $^ $2 $(LDLIBS)
endef
define archive =
@rm -f $@$(call says,AR $@)
$(quiet)ar qcs $@ $^
endef

# A file *_simd.c is compiled once per instruction set; its first lines name the functions after $(SIMD).
x86      := $(filter x86_64-%,$(target))
avx2     := -mavx2 -mfma
avx512   := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
rooms    := proto compress nn nn/* mesh mesh/* mesh/core/* node node/*
lib_all  := $(wildcard $(rooms:%=%/*.c))
simd_src := $(filter %_simd.c,$(lib_all))
lib_src  := $(filter-out $(simd_src) node/cli/main.c node/cli/static.c,$(lib_all))
lib_obj  := $(lib_src:%.c=$B/%.o) $(simd_src:%.c=$B/%.base.o) \
    $(if $(x86),$(simd_src:%.c=$B/%.avx2.o) $(simd_src:%.c=$B/%.avx512.o))
# The core and what it sums with, with planted bugs (proto/mutants.def), for the simulator and the unit tests
# that plant some.
plant_src := $(filter mesh/core/% compress/% node/train/feedback.c,$(lib_src))
mutants  := $(filter-out $(plant_src:%.c=$B/%.o),$(lib_obj)) $(plant_src:%.c=$B/%.mutant.o)
# The program with the points at which tests let it fail (proto/fail.h).
fail_src := $(shell grep -ls 'include "proto/fail.h"' $(lib_src) node/cli/main.c) tests/chaos/fail.c
failing  := $(filter-out $(fail_src:%.c=$B/%.o),$B/node/cli/main.o $(lib_obj)) $(fail_src:%.c=$B/%.fail.o)
lib      := $B/libmeshnode.a
planted  := $B/libplanted.a
cases    := $B/tests/support/test.o
support  := $(filter-out $(cases),$(patsubst %.c,$B/%.o,$(wildcard tests/support/*.c)))
tests    := $(patsubst %.c,$B/%,$(wildcard tests/unit/test_*.c tests/prop/prop_*.c))
replays  := $(patsubst tests/fuzz/fuzz_%.c,$B/tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
planting := $(patsubst %.c,$B/%,$(shell grep -ls MUTANT_ tests/unit/*.c))
benches  := $(patsubst %.c,$B/%,$(wildcard tests/bench/bench_*.c))

# What ThreadSanitizer cannot see inside ZeroMQ.
export TSAN_OPTIONS ?= suppressions=$(CURDIR)/tests/support/tsan.supp

.PHONY: all check-arm failpoints flips hashes chaos chaos-night compose-test bare-test deb-test deps check-deps demo check test unit test-build process sim torture bench cov syntax format format-check lint layers lines pypi static deb dist install clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $B/meshnode                     ## the program (build/gcc/meshnode, and a link to it at the root)
	@ln -sf $B/meshnode meshnode

$B/meshnode: $B/node/cli/main.o $(lib_obj)
	$(call link)
$B-fail/meshnode: $(failing)
	$(call link)
ifeq ($(CC)-$(findstring undefined,$(SANITIZE)),clang-undefined) # it needs ten minutes for the checks of unrolled loops
$B/nn/arithmetic/product%.o $B/nn/arithmetic/windows%.o $B/compress/packed_simd%.o: CFLAGS += -fno-sanitize=undefined
endif
$B/%.base.o: %.c
	$(call compile,-O3 -DSIMD=base,base)
$B/%.avx2.o: %.c
	$(call compile,-O3 $(avx2) -DSIMD=avx2,avx2)
$B/%.avx512.o: %.c
	$(call compile,-O3 $(avx512) -DSIMD=avx512,avx512)
$B/%.fail.o: %.c
	$(call compile,-DMESHNODE_FAILPOINTS,failpoints)
$B/%.mutant.o: %.c
	$(call compile,-DMESHNODE_MUTANTS,planted bugs)
$B/%.o: %.c
	$(call compile)

$(lib): $(lib_obj)
	$(archive)
$(planted): $(mutants)
	$(archive)
$(planting): $B/tests/unit/%: $B/tests/unit/%.o $(cases) $(support) $(planted)
	$(call link,,-lcmocka)
$B/tests/unit/%: $B/tests/unit/%.o $(cases) $(support) $(lib)
	$(call link,,$(shell sed -n 's|^.*LDFLAGS: *||; T; s| *\*/.*||; p' tests/unit/$*.c) -lcmocka)
$B/tests/prop/%: $B/tests/prop/%.o $(cases) $(support) $(lib)
	$(call link,,-lcmocka)
$B/tests/bench/%: $B/tests/bench/%.o $(lib)
	$(call link)
$B/tests/fuzz/replay_%: $B/tests/fuzz/fuzz_%.o $B/tests/fuzz/replay.o $(lib)
	$(call link)
$B/sim: $(patsubst %.c,$B/%.o,$(wildcard tests/sim/*.c tests/support/scenario*.c)) $B/tests/support/mutant.o $(planted)
	$(call link)
$B/switch: $B/tests/chaos/switch.o $(support) $(lib)
	$(call link)
$B/forge: $B/tests/process/forge.o $(lib)
	$(call link)
$B/hostile: $B/node/cli/main.o $B/tests/process/hostile.o $(lib_obj)
	$(call link,-Wl$(comma)--wrap=wire_send_bulk)

# The static program. Names that begin like these are of libraries that it does without: node/cli/static.c. The linker warns of
# functions that look for plug-ins; that file says why they find none.
tool        = $$($(CC) -print-prog-name=$1)
static_libs = -lczmq -Wl,--start-group $(pc_libs) -luuid -lbsd -lmd -Wl,--end-group -lstdc++ -lm
left_out    = $(shell $(call tool,nm) -u $(foreach a,libzmq.a libczmq.a,$$($(CC) $(sysroot) -print-file-name=$a)) 2>/dev/null | \
    grep -oE '\b(gss_|GSS_|Norm|NORM_|pgm_|sd_)[A-Za-z0-9_]+$$' | grep -vxE 'pgm_init|pgm_shutdown|sd_listen_fds' | sort -u)
arch        = $(if $(filter aarch64-%,$(or $(target),$(shell uname -m)-)),arm64,amd64)
$B/meshnode-static: $B/node/cli/static.o $B/node/cli/main.o $(lib_obj)
	@mkdir -p $(@D)$(call says,LD $@)
	$(quiet)$(CC) $(LDFLAGS) -static-pie -Wl,--gc-sections $(left_out:%=-Wl$(comma)--defsym=%=absent) -o $@ $^ $(static_libs) \
	    >$@.log 2>&1 || { cat $@.log >&2; false; }
build/meshnode-$(arch): $B/meshnode-static
	$(quiet)$(call tool,strip) -o $@ $<

deps:                                ## install what the build needs (Debian, Ubuntu; elsewhere: print it)
	@$(install)
check-deps:
	@$(install) test static

# Builds on all cores, unless make was told how many: a bare make has one job.
JOBS     ?= $(shell nproc)
parallel  = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))

demo: deps                           ## four nodes on this machine find one another and train digits
	@$(MAKE) -s $(parallel) all TODO=$$($(MAKE) -n all | grep -c ' -c -o ')
	./meshnode local -n 4 configs/digits.yaml

check: check-deps                    ## everything that must hold: unit tests, properties, corpora, simulator, real nodes
	@tests/support/deps.sh clang || echo "*** no clang to be had: test_clang.sh is skipped" >&2
	@$(MAKE) -s $(parallel) all test-build failpoints
	@[ ! -d $(arm_root) ] || $(MAKE) -s CC=$(arm_cc) SYSROOT=$(arm_root) build/$(arm_cc)/meshnode
	@$(if $(SANITIZE),,$(MAKE) -s $B/meshnode-static || echo "*** no static program: test_static.sh is skipped" >&2)
	@[ ! -e build/$(arm_cc)/meshnode-static ] || $(MAKE) -s CC=$(arm_cc) SYSROOT=$(arm_root) build/$(arm_cc)/meshnode-static
	@tests/support/layers.sh $B
	@tests/support/lines.sh check
	@MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) BUILD=$(abspath $B) tests/run.sh $B/logs $(tests) $(replays) \
	    $B/sim $(wildcard tests/process/test_*.sh)

# ARM64 on this machine: Debian's cross compiler, its packages in a tree, qemu-user. make check has a short part of it.
# The emulator is 20 to 50 times slower: tests draw a tenth of their random cases, and say so (tests/support/cases.h).
arm_cc   := aarch64-linux-gnu-gcc
arm_root := build/sysroot-aarch64-linux-gnu
check-arm: check-deps                ## ARM64 by qemu-user, half an hour: unit tests, properties, corpora; x86-64 and ARM64 in one mesh
	@tests/support/deps.sh arm
	@tests/support/sysroot.sh $(arm_root)
	@$(MAKE) -s $(parallel) all
	@$(MAKE) -s $(parallel) CC=$(arm_cc) SYSROOT=$(arm_root) build/$(arm_cc)/meshnode build/$(arm_cc)/meshnode-static test-build
	@SYSROOT=$(abspath $(arm_root)) RUNNER=tests/support/qemu.sh DEADLINE=3600 TEST_CASES=$${TEST_CASES:-0.1} tests/run.sh build/$(arm_cc)/logs \
	    $(patsubst $B/%,build/$(arm_cc)/%,$(tests) $(replays))
	@MESHNODE=$(abspath $B/meshnode) tests/process/test_arm.sh all
	@$(MAKE) -s $B/meshnode-static
	@MESHNODE=$(abspath $B/meshnode) BUILD=$(abspath $B) tests/process/test_static.sh

test: check-deps                     ## the fast part of check: unit tests, properties, corpora
	@$(MAKE) -s $(parallel) test-build
	@tests/run.sh $B/logs $(tests) $(replays)

unit: test-build                     ## unit tests alone
	@tests/run.sh $B/logs $(filter $B/tests/unit/%,$(tests))

test-build: $(tests) $(replays) $B/sim $B/switch $B/hostile $B/forge

hashes:                              ## one hash per model: instruction sets, nodes, threads, compilers; half an hour
	@tests/support/deps.sh build lint
	@$(MAKE) -s $(parallel) build/gcc/meshnode
	@$(MAKE) -s $(parallel) CC=clang build/clang/meshnode
	MESHNODE=$(abspath build/gcc/meshnode) MESHNODE_CLANG=$(abspath build/clang/meshnode) tests/chaos/matrix.py --of models --all $(HASHES)

flips: all failpoints                ## half an hour: 1,000 flipped bits in each of nine places, 200 liars
	MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) tests/process/test_flips.sh 1000
	MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) tests/process/test_flips.sh 1000 1 vote
	MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) tests/process/test_liar.sh 200

failpoints: $B-fail/meshnode         ## the program with failpoints for tests (proto/fail.h), in build/gcc-fail

process: all failpoints $B/sim $B/switch $B/hostile $B/forge    ## real nodes: loopback, namespaces, kills, bad input
	@MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) BUILD=$(abspath $B) tests/run.sh $B/logs $(wildcard tests/process/test_*.sh)

# Tools of tests/chaos; each prints its seed and a table. The night's judge pauses by the pass lines of a quiet machine.
chaos = BUILD=$(abspath $B) MESHNODE=$(abspath $B/meshnode) FAILNODE=$(abspath $B-fail/meshnode) \
    MESHNODE_CLANG=$(abspath build/clang/meshnode) tests/chaos/run.sh
chaos: check-deps                    ## minutes of accidents for real nodes: failpoints, kills, hash matrix, cold starts, scenarios
	@$(MAKE) -s all failpoints $B/sim $B/switch
	@$(chaos) short
chaos-night: check-deps              ## all of it, with networks and containers: hours; PERCENT=1: a hundredth
	@tests/support/deps.sh lint
	@$(MAKE) -s all failpoints $B/sim $B/switch
	@$(MAKE) -s CC=clang build/clang/meshnode
	@$(chaos) night

compose-test:                        ## kills, pauses, disconnects and moves containers; needs a docker engine
	@tests/chaos/compose.sh; status=$$?; [ $$status = 77 ] || exit $$status

bare-test:                           ## the first build, in a Debian without a compiler: make deps all, make demo; needs root
	@tests/support/deps.sh build bare
	@$(MAKE) -s $(parallel) all
	@MESHNODE=$(abspath $B/meshnode) tests/process/test_first_build.sh debian; status=$$?; [ $$status = 77 ] || exit $$status

deb-test: deb                        ## the packages of make deb, in Debian 11, 12, 13 and Ubuntu 22.04: minutes; needs root and mirrors
	@tests/support/deps.sh build test bare arm
	@$(MAKE) -s $(parallel) all $B/meshnode-static
	@MESHNODE=$(abspath $B/meshnode) BUILD=$(abspath $B) tests/process/test_static.sh releases; status=$$?; [ $$status = 77 ] || exit $$status

SECONDS ?= 60
sim: check-deps                      ## the simulator: scenarios, drills, planted bugs, then fresh schedules of every engine, SECONDS=60 on all cores, or JOBS=n
	@$(MAKE) -s $B/sim
	$B/sim --scenario all
	$B/sim --drill
	$B/sim --mutants
	BUILD=$B tests/sim/fresh.sh $(SECONDS) $(JOBS)

SEEDS ?= 1 2 3 4 5
torture: check-deps                  ## checkpoints: 100,000 damages per seed in SEEDS, every crash, repairs by real nodes
	@$(MAKE) -s all $B/tests/prop/prop_checkpoint $B/tests/unit/test_crash $B/tests/unit/test_save
	$B/tests/unit/test_crash
	$B/tests/unit/test_save
	for seed in $(SEEDS); do $B/tests/prop/prop_checkpoint 100000 $$seed && \
	    MESHNODE=$(abspath $B/meshnode) tests/process/test_repair.sh $$seed || exit 1; done

bench: deps                          ## ratios to raw TCP, Gloo, Open MPI, OpenBLAS and PyTorch, which it gets from PyPI
	@tests/support/deps.sh build bench
	@[ -x build/venv-torch/bin/python ] || $(MAKE) -s build/venv-torch || echo "*** no PyTorch from PyPI: Debian's instead" >&2
	@[ -x build/venv-hivemind/bin/python ] || $(MAKE) -s build/venv-hivemind || echo "*** no hivemind from PyPI: not measured" >&2
	@$(MAKE) -s all $(benches)
	BUILD=$(abspath $B) python3 tests/bench/run.py $(BENCH)

# libFuzzer under ASan and UBSan; TIME=seconds. New inputs go to build/fuzz, the committed corpus is read.
TIME ?= 60
fuzz-%:                              ## fuzz-msg, fuzz-config ...: libFuzzer for TIME=60 seconds
	@tests/support/deps.sh build lint
	@$(MAKE) -s CC=clang SANITIZE=fuzzer-no-link,address,undefined B=build/fuzz build/fuzz/tests/fuzz/target_$*
	@mkdir -p build/fuzz/corpus/$*
	build/fuzz/tests/fuzz/target_$* -max_total_time=$(TIME) -rss_limit_mb=2048 -timeout=5 \
	    build/fuzz/corpus/$* tests/fuzz/corpus/$*
# Only the product's branches guide the fuzzer: those of the judges would take half of the time.
$B/tests/fuzz/fuzz_%.o: CFLAGS += $(if $(findstring fuzzer,$(SANITIZE)),-fno-sanitize=fuzzer-no-link)
$B/tests/fuzz/target_%: $B/tests/fuzz/fuzz_%.o $(lib)
	$(CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS)

# For test_clang.sh: the compiler reads everything and makes nothing, which takes half a minute.
read = xargs -n 8 -P $(JOBS) $(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fsyntax-only
syntax:
	@printf '%s\n' $(filter-out tests/bench/mpi%,$(lib_all) node/cli/main.c $(wildcard tests/*/*.c)) | $(read) -DSIMD=base -DMESHNODE_MUTANTS -DMESHNODE_FAILPOINTS
	@$(if $(x86),printf '%s\n' $(simd_src) | $(read) -DSIMD=avx2 $(avx2))
	@$(if $(x86),printf '%s\n' $(simd_src) | $(read) -DSIMD=avx512 $(avx512))

sources = $(wildcard $(rooms:%=%/*.[ch]) tests/*/*.[ch])
format:                              ## clang-format everything in place
	clang-format -i $(sources)
format-check:                        ## fail when clang-format would change something
	@tests/support/deps.sh lint
	clang-format --dry-run -Werror $(sources)
lines:                               ## list every line that the program can say, by file
	@tests/support/lines.sh list
layers: all                          ## check who includes, calls and writes what; write down a sum that has fallen
	@tests/support/layers.sh $B --write
pypi: build/venv-torch build/venv-tensorboard ## PyTorch and TensorBoard from PyPI, with which make check compares
build/venv-torch: PYPI = torch numpy pandas pyyaml
build/venv-tensorboard: PYPI = tensorboard
build/venv-hivemind: PYPI = hivemind pyyaml
build/venv-%:
	python3 -m venv $@ && $@/bin/pip install -q $(PYPI) || { rm -rf $@; exit 1; }
lint: format-check layers            ## analyzers of gcc, clang and cppcheck; prints the longest functions
	@BUILD=$B CFLAGS="$(filter-out -MMD -MP,$(ALL_CFLAGS))" tests/support/lint.sh $(lib_src) $(simd_src) node/cli/main.c
cov:                                 ## line coverage of the fast tests, per file
	@$(MAKE) -s B=build/cov CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage test
	@cd build/cov && for f in $(lib_src); do gcov -n -o $$(dirname $$f) $$(basename $$f .c).o 2>/dev/null; done | \
	    awk '/^File .*\/?(node|mesh|proto|nn|compress)\//{f=$$2} /^Lines/&&f{print $$0, f; f=""}' | sort -t: -k2 -n

# Each is one file that needs nothing else on a machine: libraries and all.
static:                              ## build/meshnode-amd64 and -arm64: one file, for any Linux of that kind; on ARM64 only its own
	@tests/support/deps.sh build static
	@$(MAKE) -s $(parallel) build/meshnode-$(arch)
	@[ $(arch) = arm64 ] || { tests/support/deps.sh cross && tests/support/sysroot.sh $(arm_root) && \
	    $(MAKE) -s $(parallel) CC=$(arm_cc) SYSROOT=$(arm_root) build/meshnode-arm64; } || \
	    { rm -f build/meshnode-arm64; echo "*** no build/meshnode-arm64: see above" >&2; }
	@cd build && du --apparent-size -h meshnode-a*64
version = $(shell sed -n 's/^static const char version.*"\(.*\)";/\1/p' node/cli/main.c)
deb: static                          ## Debian packages of these, for any release
	@for program in build/meshnode-a*64; do tests/support/deb.sh $$program $(version) || exit 1; done
dist:                                ## build/meshnode-VERSION.tar.gz: the sources as they are committed
	@mkdir -p build && git archive --prefix=meshnode-$(version)/ -o build/meshnode-$(version).tar.gz HEAD && ls build/meshnode-$(version).tar.gz
install: all                         ## install program and man page below PREFIX=/usr/local
	install -D -m 755 $B/meshnode $(DESTDIR)$(PREFIX)/bin/meshnode
	install -D -m 644 node/meshnode.1 $(DESTDIR)$(PREFIX)/share/man/man1/meshnode.1
clean:                               ## remove build/ and runs/
	rm -rf build runs meshnode
users = demo deps all install static deb dist test clean
help:                                ## this list
	@sed -n 's/^\([a-z][a-z%-]*\):[^#]*## */\1\t/p' Makefile | awk -F'\t' -v users="$(users)" '\
	    { about[$$1] = $$2; order[++count] = $$1 } \
	    function show(name) { printf "  make %-14s %s\n", name, about[name]; delete about[name] } \
	    END { k = split(users, user, " "); for (i = 1; i <= k; i++) show(user[i]); print "\nFor who changes the program:"; \
	          for (i = 1; i <= count; i++) if (order[i] in about) show(order[i]) }'
	@echo "  V=1 prints each command, make -s nothing."
	@echo "  CC=clang and SANITIZE=address,undefined (or thread) build and test beside the plain build."

-include $(shell find $B -name '*.d' 2>/dev/null)
endif
