#!/usr/bin/env bash
# Makes gputop.pex: one file that runs on CPython 3.10 to 3.15, x86-64 and aarch64, without a network.
#
#     recipes/single-file/build.sh [FILE]      by default dist/gputop.pex
#
# Needs Python 3.10 or newer with pip, and a package index. The wheels of every Python and machine
# lie in the file; the first start unpacks those of its own. unpack.sh says where.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
file=$(realpath -m "${1:-$root/dist/gputop.pex}")
most=15000000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet 'pex>=2.90,<3'

# From a copy: setuptools would leave a build folder in the checkout, or pick up an old one.
mkdir "$work/source"
(cd "$root" && cp -R LICENSE README.md pyproject.toml docs gputop probes themes topology "$work/source")
find "$work/source" -name __pycache__ -prune -exec rm -rf {} +
"$work/tools/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$work" "$work/source"

targets=()
for minor in 10 11 12 13 14 15; do
    for machine in x86_64 aarch64; do
        targets+=(--platform "manylinux2014_$machine-cp-3.$minor.0-cp3$minor")
    done
done
# One networkx for all newer Pythons instead of three: each takes 2 MB.
cat > "$work/constraints.txt" <<'END'
networkx<3.5; python_version < "3.11"
networkx>=3.6,<3.7; python_version >= "3.11"
END
"$work/tools/bin/pex" "$work"/gputopo-*.whl --constraints "$work/constraints.txt" "${targets[@]}" \
    --console-script gputop --venv prepend --sh-boot --no-emit-warnings --output-file "$work/plain.pex"

# The first line of a pex is that of a shell script; unpack.sh follows it. Behind the line that says
# where this file lies once it is unpacked, a function of unpack.sh is asked.
line=$(grep --text --line-number --max-count 1 '^INSTALLED_PEX=' "$work/plain.pex" | cut -d : -f 1)
mkdir -p "$(dirname "$file")"
{
    head -n 1 "$work/plain.pex"
    cat "$here/unpack.sh"
    head -n "$line" "$work/plain.pex" | tail -n +2
    # shellcheck disable=SC2016
    echo 'gputop_start "${INSTALLED_PEX%/*}" "$@"'
    tail -n "+$((line + 1))" "$work/plain.pex"
} > "$work/gputop.pex"
chmod 755 "$work/gputop.pex"
mv "$work/gputop.pex" "$file"

size=$(stat -c %s "$file")
echo "$file: $size bytes"
if [ "$size" -gt "$most" ]; then
    echo "more than $most bytes" >&2
    exit 1
fi
