#!/bin/bash
# The verdicts of many nodes side by side, one line a node; options of srun say which nodes:
#
#     check-nodes.sh --nodes=16 --gpus-per-node=8
#     CHECK="--expect aws-p5.48xlarge" check-nodes.sh --nodelist=gpu[01-16] --gpus-per-node=8
#
# Without --quick each node measures its idle GPUs for some seconds. The exit code is the highest
# of all nodes.
set -o pipefail
gputop=${GPUTOP:-gputop}
check=${CHECK:---quick}

# Every task is one node: it prints its name and the first line, which is the verdict.
# shellcheck disable=SC2016  # these variables are the task's
task='
report=$("$0" check "$@" 2>/dev/null)
code=$?
verdict=$(printf "%s\n" "$report" | head -n 1)
printf "%-24s %s\n" "${SLURMD_NODENAME:-?}" "${verdict:-no answer, exit code $code}"
exit $code'

# shellcheck disable=SC2086  # several options in one variable
srun --ntasks-per-node=1 --kill-on-bad-exit=0 "$@" bash -c "$task" "$gputop" $check | sort
