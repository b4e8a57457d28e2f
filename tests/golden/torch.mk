# Links a program of this folder with the library: make -f tests/golden/torch.mk build/gcc/tests/golden/torch_batch
include Makefile
$B/tests/golden/%: $B/tests/golden/%.o $(lib_obj)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
