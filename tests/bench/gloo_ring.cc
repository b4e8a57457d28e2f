// gloo_ring.cc - Gloo's all-reduce algorithms over TCP, timed like the others.
//
//     gloo_ring RANK RANKS ADDRESS DIRECTORY ALGORITHM
//
// ALGORITHM: ring (what torch.distributed runs), ring_chunked, halving_doubling, bcube. ADDRESS is what
// this rank binds; DIRECTORY is empty at the start and seen by all ranks, who meet through files in it.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/bench/measure.h"

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Maker = std::function<std::unique_ptr<gloo::Algorithm>(const Context &, float *, int)>;

static const auto patience = std::chrono::seconds(300);

struct Job {
    Context context;
    Maker make; // null: the stateless interface with `kind`
    gloo::AllreduceOptions::Algorithm kind;
    std::unique_ptr<gloo::Algorithm> bound; // these objects belong to one vector
    float *vector;
    size_t count;
};

static void
reduce_stateless(Job &job, float *vector, size_t count)
{
    gloo::AllreduceOptions options(job.context);
    options.setAlgorithm(job.kind);
    options.setOutput(vector, count);
    options.setTimeout(patience);
    options.setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
}

static void
reduce(void *ctx, float *vector, size_t count)
{
    Job &job = *static_cast<Job *>(ctx);
    if (!job.make)
        return reduce_stateless(job, vector, count);
    if (!job.bound || job.vector != vector || job.count != count) {
        job.bound.reset();
        job.bound = job.make(job.context, vector, static_cast<int>(count));
        job.vector = vector;
        job.count = count;
    }
    job.bound->run();
}

template <class A>
static std::unique_ptr<gloo::Algorithm>
bind_to(const Context &context, float *vector, int count)
{
    return std::unique_ptr<gloo::Algorithm>(new A(context, std::vector<float *>{vector}, count));
}

static bool
choose(const std::string &name, Job &job)
{
    using Kind = gloo::AllreduceOptions::Algorithm;
    const std::map<std::string, Maker> makers = {
        {"ring", nullptr},
        {"bcube", nullptr},
        {"ring_chunked", bind_to<gloo::AllreduceRingChunked<float>>},
        {"halving_doubling", bind_to<gloo::AllreduceHalvingDoubling<float>>},
    };
    const auto found = makers.find(name);
    if (found == makers.end())
        return false;
    job.make = found->second;
    job.kind = name == "bcube" ? Kind::BCUBE : Kind::RING;
    return true;
}

int
main(int argc, char **argv)
{
    Job job{};
    if (argc != 6 || !choose(argv[5], job)) {
        fprintf(stderr, "usage: gloo_ring RANK RANKS ADDRESS DIRECTORY "
                        "ring|ring_chunked|halving_doubling|bcube\n");
        return 2;
    }
    const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
    gloo::transport::tcp::attr where(argv[3]);
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(argv[4]);
    job.context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    job.context->setTimeout(patience);
    job.context->connectFullMesh(store, device);
    measure_all((std::string("gloo-") + argv[5]).c_str(), rank, ranks, reduce, &job);
    // A rank that closes its sockets makes the others throw, so nobody tears down: all have printed.
    gloo::BarrierOptions barrier(job.context);
    gloo::barrier(barrier);
    fflush(stdout);
    _Exit(0);
}
