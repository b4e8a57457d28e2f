#!/bin/bash
# live.sh - reads the lines that a node shows while it trains (node/results/show.h).
#
#     docker logs NODE | live     # "STEP NODES" of the last one: the step, and how many nodes took part in it

live() {
    sed -n 's|^step \([0-9]*\)/.*  \([0-9]*\) nodes\{0,1\}  .*|\1 \2|p' | tail -n 1
}
