#!/bin/bash
# One answer about many nodes: which are dead, hang, are slow or broken, and what they do not share.
#
#     check-nodes.sh                                    # every node that sinfo lists
#     check-nodes.sh --partition=gpu --states=idle
#     CHECK="--quick --expect aws-p5.48xlarge" check-nodes.sh --nodes='gpu[01-16]'
#
# The options are sinfo's and say which nodes; inside a job, its own nodes are meant. Each node writes
# a file into $DIR, a folder that all nodes share. The exit code is that of `gputop fleet`.
#
# Each node is a job of its own, or a step inside a job: Slurm ends a step over several nodes as a
# whole where one of them does not take it. A node that is busy for $WAIT seconds is left out.
set -u -o pipefail
gputop=${GPUTOP:-gputop}
check=${CHECK:---quick}                      # without it, each node measures its idle GPUs
deadline=${DEADLINE:-60}
dir=${DIR:-$PWD/gputop-$(date +%Y%m%d-%H%M%S)}

if [ -n "${SLURM_JOB_ID:-}" ]; then
    nodes=$(scontrol show hostnames)
    how=(--overlap)
else
    nodes=$(sinfo --noheader --Node --format=%N "$@" | sort -u)
    how=(--exclusive "--immediate=${WAIT:-10}")
fi
if [ -z "$nodes" ]; then
    echo "no such nodes" >&2
    exit 64
fi
mkdir -p "$dir" || exit 64

# What srun says of a node stands beside the folder: in it, it would be taken for an answer.
ask() {
    # shellcheck disable=SC2086  # several options in one variable
    timeout -k 40 $((deadline + 30)) srun --quiet "${how[@]}" --nodelist="$1" --nodes=1 --ntasks=1 \
        "$gputop" check $check --deadline "$deadline" -o "$dir/%n.json.gz"
}
while read -r node; do
    while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-64}" ]; do wait -n; done
    ask "$node" </dev/null &
done <<<"$nodes" >/dev/null 2>"$dir.log"
wait

"$gputop" fleet "$dir" --nodes "$(paste -s -d, <<<"$nodes")" | cat
code=${PIPESTATUS[0]}

silent=$(while read -r node; do [ -e "$dir/$node.json.gz" ] || echo "$node"; done <<<"$nodes")
if [ -n "$silent" ]; then
    printf '\nwithout a file, as Slurm knows them (what srun said: %s)\n' "$dir.log"
    sinfo --noheader --Node --nodes="$(paste -s -d, <<<"$silent")" --format='%N %T %E' | sort -u
fi
exit "$code"
