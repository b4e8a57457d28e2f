#!/bin/bash
# configs/cifar-resnet.yaml on files of CIFAR-10's format, whose classes are colours: it trains, and comes to the same
# weights on one node and on two.
. "$(dirname "$0")/../support/process.sh"

mkdir "$WORK/data"
python3 - "$WORK/data" <<'END' || skip "no python3"
import random, sys

random.seed(3)


def record(label):
    shade = [random.randrange(60, 90) + (90 if label >> c & 1 else 0) for c in range(3)]
    noise = [random.randrange(30) for _ in range(1024)]
    stripe = 40 if label > 7 else 0
    planes = (bytes(shade[c] + n + stripe * (i // 32 & 1) for i, n in enumerate(noise)) for c in range(3))
    return bytes([label]) + b"".join(planes)


for name in ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]:
    with open("%s/%s.bin" % (sys.argv[1], name), "wb") as file:
        file.write(b"".join(record(i % 10) for i in range(64)))
END

job=("$ROOT/configs/cifar-resnet.yaml" --data "$WORK/data" --set data.test=32 --set train.batch=32 --set train.steps=4
    --set train.eval_every=0)
reference "${job[@]}"
node a "${job[@]}" --peers 2
node b "${job[@]}" --peers 2
finished 120 a b
same_hash reference a b
echo "test loss $(result a test_loss) after 4 steps: $(result a params_sha256)"
