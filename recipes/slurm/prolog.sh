#!/bin/bash
# slurm.conf: Prolog=/etc/slurm/gputop-prolog.sh
#
# slurmd runs this as root on each node of a job, before it. A prolog that fails drains the node and
# puts the job back into the queue, so it fails for one answer alone: this node is broken. A slow
# node, and one of which gputop cannot tell, take the job; the log says so.
PATH=/usr/bin:/bin                           # slurmd sets none
gputop=${GPUTOP:-/opt/gputop/bin/gputop}
state=${GPUTOP_STATE:-/run/gputop}

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0       # a job without GPUs

say() {
    printf '%s\n' "$1"
    if command -v logger >/dev/null; then logger -t gputop -- "job ${SLURM_JOB_ID:-?}: $1"; fi
}

check() {
    timeout -k 5 20 "$gputop" check --quick "${source[@]}" "$@" 2>/dev/null
}

# What counters say now is what the epilog compares with.
umask 077
before="$state/${SLURM_JOB_ID:-0}.json"
source=()
if mkdir -p "$state" && timeout -k 5 20 "$gputop" snapshot -o "$before" 2>/dev/null; then
    source=(--from "$before")
fi

report=$(check --gpus "$SLURM_JOB_GPUS")
code=$?
# Wrong usage (64): a GPU of the job that no driver numbers any more. The whole node then tells.
if [ $code -eq 64 ]; then report=$(check); code=$?; fi
case $code in
    0) exit 0 ;;
    2) say "$report"; exit 1 ;;
    *) say "${report:-gputop gave no answer, exit code $code}"; exit 0 ;;
esac
