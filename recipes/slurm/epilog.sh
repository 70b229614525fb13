#!/bin/bash
# slurm.conf: Epilog=/etc/slurm/gputop-epilog.sh
#
# slurmd runs this as root on each node of a job, after it. What the job's GPUs counted since the
# prolog (replays, recoveries, ECC errors) is compared with the prolog's snapshot. An epilog that
# fails drains the node; this one does so where the node is broken.
PATH=/usr/bin:/bin                           # slurmd sets none
gputop=${GPUTOP:-/opt/gputop/bin/gputop}
state=${GPUTOP_STATE:-/run/gputop}

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0       # a job without GPUs

say() {
    printf '%s\n' "$1"
    if command -v logger >/dev/null; then logger -t gputop -- "job ${SLURM_JOB_ID:-?}: $1"; fi
}

check() {
    timeout -k 5 20 "$gputop" check --quick "${since[@]}" "$@" 2>/dev/null
}

before="$state/${SLURM_JOB_ID:-0}.json"
since=()
[ -s "$before" ] && since=(--since "$before")

report=$(check --gpus "$SLURM_JOB_GPUS")
code=$?
# Wrong usage (64): a GPU of the job that no driver numbers any more. The whole node then tells.
if [ $code -eq 64 ]; then report=$(check); code=$?; fi
rm -f "$before"
case $code in
    0) exit 0 ;;
    2) say "$report"; exit 1 ;;
    *) say "${report:-gputop gave no answer, exit code $code}"; exit 0 ;;
esac
