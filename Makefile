# meshnode: `make help` lists the targets. Sources are found, not listed.
# CC=clang and SANITIZE=address,undefined (or thread) build beside the plain build.
CC       = gcc
PREFIX  ?= /usr/local
SANITIZE =
WERROR   = -Werror
tag     := $(CC)$(if $(SANITIZE),-$(subst $(comma),+,$(SANITIZE)))
comma   := ,
B       := build/$(CC)$(if $(SANITIZE),-$(subst $(comma),+,$(SANITIZE)))

packages = libzmq libczmq msgpack openblas yaml-0.1 jansson libsodium libxxhash zlib
pc_flags = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(packages) 2>/dev/null))
CFLAGS   = -O2 -g
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -UNDEBUG -ffp-contract=off -fno-math-errno \
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-qual \
    -Wformat=2 -Wundef -Wdouble-promotion $(WERROR) -I. $(pc_flags) -MMD -MP \
    $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
LDLIBS   = $(shell pkg-config --libs $(packages) 2>/dev/null) -lm -lpthread
LDFLAGS  = $(if $(SANITIZE),-fsanitize=$(SANITIZE))

# A file *_simd.c is compiled once per instruction set; its first lines name the functions after $(SIMD).
simd_src := $(wildcard proto/*_simd.c compress/*_simd.c nn/*_simd.c mesh/*_simd.c)
lib_src  := $(filter-out $(simd_src) node/main.c,$(wildcard proto/*.c compress/*.c nn/*.c mesh/*.c node/*.c))
lib_obj  := $(lib_src:%.c=$B/%.o) $(simd_src:%.c=$B/%.base.o) $(simd_src:%.c=$B/%.avx2.o)
support  := $(patsubst %.c,$B/%.o,$(wildcard tests/support/*.c))
tests    := $(patsubst %.c,$B/%,$(wildcard tests/unit/test_*.c tests/prop/prop_*.c))
replays  := $(patsubst tests/fuzz/fuzz_%.c,$B/tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
benches  := $(patsubst %.c,$B/%,$(wildcard tests/bench/bench_*.c))

.PHONY: all deps demo check test process sim bench bench-build cov format format-check lint layers install clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $B/meshnode                     ## the program (build/gcc/meshnode, and a link to it at the root)
	@ln -sf $B/meshnode meshnode

$B/meshnode: $B/node/main.o $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$B/%.base.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -O3 -DSIMD=base -c -o $@ $<
$B/%.avx2.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -O3 -mavx2 -DSIMD=avx2 -c -o $@ $<
$B/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$B/tests/unit/%: $B/tests/unit/%.o $(support) $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(shell sed -n 's/^.*LDFLAGS: *//p' tests/unit/$*.c) -lcmocka $(LDLIBS)
$B/tests/prop/%: $B/tests/prop/%.o $(support) $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)
$B/tests/bench/%: $B/tests/bench/%.o $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$B/tests/fuzz/replay_%: $B/tests/fuzz/fuzz_%.o $B/tests/fuzz/replay.o $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$B/sim: $(patsubst %.c,$B/%.o,$(wildcard tests/sim/*.c)) $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(shell find build -name '*.d' 2>/dev/null)
