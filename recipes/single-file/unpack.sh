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
    # Python loads libraries from here, which a folder mounted noexec refuses.
    chmod 700 "$1" && printf '#!/bin/sh\n' > "$1/runs" && chmod 700 "$1/runs" && "$1/runs" &&
        mv "$1/runs" "$1/usable"
}
# A Python that runs: pyenv puts a script in the place of each one that it knows, in use or not.
gputop_python() {
    for python in python3.10 python3.11 python3.12 python3.13 python3.14 python3.15 python3; do
        found=$(command -v "$python") &&
            "$found" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 15))' 2> /dev/null &&
            return
    done
    echo "gputop: no Python 3.10 to 3.15 on PATH" >&2
    exit 70
}
# Names the unpacked folder that a start goes to without asking any Python, or the Python that unpacks.
# Pex names such folders after the Python that they are for, and here expects the path of the one that
# made this file. All folders of this file lie in $1; those of other nodes that share the disk may be for
# a Python that this one lacks.
gputop_unpacked() {
    for library in "$1"/*/lib/python3.*/site-packages/msgspec/_core.*-"$(uname -m)"-linux-gnu.so; do
        folder=${library%/lib/python3.*}
        version=${library#"$folder/lib/"}
        version=${version%%/*}
        if [ -e "$library" ] && [ -x "$folder/bin/$version" ] &&
            [ "$(basename "$(readlink "$folder/bin/$version")")" = "$version" ]; then
            # shellcheck disable=SC2034
            INSTALLED_PEX=$folder
            return
        fi
    done
    if [ -z "${PEX_PYTHON:-}${PEX_PYTHON_PATH:-}" ]; then
        gputop_python
        # shellcheck disable=SC2034
        DEFAULT_PYTHON=$found
    fi
    echo "gputop: unpacking to $PEX_ROOT, once" >&2
}
if [ -z "${PEX_ROOT:-}" ]; then
    user=$(id -u)
    for place in "${XDG_CACHE_HOME:-${HOME:-}/.cache}/gputop-pex" "${TMPDIR:-/tmp}/gputop-pex-$user" \
        "/tmp/gputop-pex-$user" "/dev/shm/gputop-pex-$user"; do
        if [ ! -e "$place/usable" ]; then
            [ "$place" = "/.cache/gputop-pex" ] && continue
            # shellcheck disable=SC2174
            mkdir -p -m 700 "$place" 2> /dev/null
        fi
        if gputop_usable "$place" 2> /dev/null; then
            PEX_ROOT=$place
            break
        fi
    done
    if [ -z "${PEX_ROOT:-}" ]; then
        echo "gputop: nowhere to unpack: PEX_ROOT may name a folder that you may write and that is not mounted noexec" >&2
        exit 70
    fi
    export PEX_ROOT
fi
