#!/bin/bash
# Numbers to predict: the configs of a regression and of an autoencoder come to the same weights on one node and on
# two, learn what they should, and a job whose outputs do not fit is refused. The table is what its generator makes.
. "$(dirname "$0")/../support/process.sh"
cd "$ROOT" || exit 1 # the table is named from here

awk -f configs/friedman.awk | cmp - configs/friedman.csv || fail "configs/friedman.awk makes another table"

trains() { # CONFIG LOSS OPTION ...: better than LOSS on the test part
    local config=$1 worst=$2
    shift 2
    rm -rf "$WORK"/reference "$WORK"/[ab]
    reference "configs/$config.yaml" "$@"
    node a "configs/$config.yaml" --peers 2 "$@"
    node b "configs/$config.yaml" --peers 2 "$@"
    finished 120 a b
    same_hash reference a b
    [ "$(result a peers_max)" = 2 ] || fail "$config: they did not train together"
    awk -v loss="$(result a test_loss)" -v worst="$worst" 'BEGIN { exit !(loss > 0 && loss < worst) }' ||
        fail "$config: test loss $(result a test_loss), expected below $worst"
    echo "$config: test loss $(result a test_loss), one hash on one node and two"
}

trains regression 1.3
trains autoencoder 0.03 --set train.epochs=10 --set train.eval_every=0 --set train.optimizer.adam.rate=0.01 \
    --set data.train=960 --set data.test=120

refused() { # PATTERN OPTION ...
    refuses "$1" check configs/autoencoder.yaml "${@:2}"
}
refused "the last layer has 784 outputs, expected 10 targets of the data" --set data.target=label
refused "data.target = image, expected label or input" --set data.target=image

# What it draws is nearer to the image than black is.
"$MESHNODE" predict configs/autoencoder.yaml "$WORK/a/model.safetensors" --set data.train=960 --set data.test=120 |
    awk -F, 'NR == 1 { ok = $2 == "target0" && $785 == "target783" && $786 == "y0" && NF == 1569; next }
        { for (i = 2; i <= 785; i++) { off += ($i - $(i + 784)) ^ 2; black += ($i + 0.5) ^ 2 } }
        END { exit !(ok && NR == 121 && off < black / 3) }' || fail "the autoencoder draws badly"
