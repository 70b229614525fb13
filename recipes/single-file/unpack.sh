# shellcheck shell=sh
# Where gputop.pex unpacks itself, once: in the cache folder of the user or, where that cannot be
# written, in a folder below a temporary one that nobody else may enter. PEX_ROOT names another.
gputop_usable() {
    # Made by somebody else, it may hold anything.
    # shellcheck disable=SC3067
    if [ -L "$1" ] || [ ! -O "$1" ]; then
        return 1
    fi
    if [ -e "$1/usable" ]; then
        return 0
    fi
    # Python loads libraries from here, which a folder mounted noexec refuses. Other starts may try at
    # the same time, also those of other nodes that share the disk.
    runs="$1/runs.$(uname -n).$$"
    chmod 700 "$1" && printf '#!/bin/sh\n' > "$runs" && chmod 700 "$runs" && "$runs" && mv -f "$runs" "$1/usable"
}
# Sets PEX_ROOT to the first usable place, with "writable" to the first that can be written now: a home
# may have been written on another node.
gputop_place() {
    user=$(id -u)
    for place in "${XDG_CACHE_HOME:-${HOME:-}/.cache}/gputop-pex" "${TMPDIR:-/tmp}/gputop-pex-$user" \
        "/tmp/gputop-pex-$user" "/dev/shm/gputop-pex-$user"; do
        # Neither where no home is named, nor in the current folder.
        case $place in /.cache/gputop-pex | [!/]*) continue ;; esac
        if [ ! -e "$place/usable" ]; then
            # shellcheck disable=SC2174
            mkdir -p -m 700 "$place" 2> /dev/null || continue
        fi
        if gputop_usable "$place" 2> /dev/null && { [ -z "${1:-}" ] || [ -w "$place" ]; }; then
            PEX_ROOT=$place
            export PEX_ROOT
            return
        fi
    done
    echo "gputop: nowhere to unpack: PEX_ROOT may name a folder that you may write and that is not mounted noexec" >&2
    exit 70
}
# A Python that runs: pyenv puts a script in the place of each one that it knows, in use or not.
gputop_python() {
    for python in python3.10 python3.11 python3.12 python3.13 python3.14 python3.15 python3 python; do
        found=$(command -v "$python") &&
            "$found" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 15))' 2> /dev/null &&
            return
    done
    echo "gputop: no Python 3.10 to 3.15 on PATH" >&2
    exit 70
}
# Finds the folder below $1 that was unpacked for a Python of this node. Those of other nodes that share
# the disk may be for a Python that this one lacks; one that is not complete has a dot in its name.
gputop_find() {
    for library in "$1"/*/lib/python3.*/site-packages/msgspec/_core.*-"$(uname -m)"-linux-gnu.so; do
        found=${library%/lib/python3.*}
        case ${found##*/} in *.*) continue ;; esac
        version=${library#"$found/lib/"}
        version=${version%%/*}
        if [ -e "$library" ] && [ -x "$found/bin/$version" ] &&
            [ "$(basename "$(readlink "$found/bin/$version")")" = "$version" ]; then
            return 0
        fi
    done
    return 1
}
# Starts gputop from the folder $1 with the other arguments. Pex's own start writes to that folder, and
# takes the place of an active environment, in which gputop looks for torch and NCCL.
gputop_exec() {
    folder=$1
    shift
    [ -n "$gputop_named" ] || unset PEX_ROOT
    PEX=$0
    export PEX
    exec "$folder/bin/python" -I "$folder/bin/gputop" "$@"
}
# Unpacks unless that is done, and starts gputop with the other arguments. Pex names unpacked folders after
# the Python that they are for; those of this file lie in $1.
gputop_start() {
    unpacked=$1
    shift
    if [ -n "${PEX_PYTHON:-}${PEX_PYTHON_PATH:-}${PEX_PATH:-}${PEX_INTERPRETER:-}${PEX_MODULE:-}${PEX_SCRIPT:-}" ]; then
        return # what somebody asks of pex
    fi
    if gputop_find "$unpacked"; then
        gputop_exec "$found" "$@"
    fi
    mkdir -p "$PEX_ROOT" 2> /dev/null || true
    if [ ! -w "$PEX_ROOT" ] && [ -z "$gputop_named" ]; then
        below=${unpacked#"$PEX_ROOT"}
        gputop_place writable
        unpacked=$PEX_ROOT$below
        if gputop_find "$unpacked"; then
            gputop_exec "$found" "$@"
        fi
    fi
    if [ ! -d "$PEX_ROOT" ] || [ ! -w "$PEX_ROOT" ]; then
        echo "gputop: PEX_ROOT names a folder that cannot be written: $PEX_ROOT" >&2
        exit 70
    fi
    gputop_python
    echo "gputop: unpacking to $PEX_ROOT, once" >&2
    if ! said=$(PEX_INTERPRETER=1 "$found" "$0" -c '' 2>&1) || ! gputop_find "$unpacked"; then
        echo "gputop: cannot unpack: ${said##*"
"}" >&2
        echo "gputop: PEX_ROOT may name another folder" >&2
        exit 70
    fi
    gputop_exec "$found" "$@"
}
gputop_named=${PEX_ROOT:-}
[ -n "$gputop_named" ] || gputop_place
