#!/usr/bin/env bash
# Installs, tries and removes a package of build.sh in a clean root of the same distribution.
#
#     recipes/debian/try.sh FILE        needs root and mmdebstrap
set -euo pipefail
file=$(realpath "$1")
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mmdebstrap --quiet --variant=minbase --include=python3,man-db "$suite" "$root"
cp "$file" "$root/tmp/gputopo.deb"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent LC_ALL=C.UTF-8 "$@"; }
files() { (cd "$root" && find . -path ./proc -prune -o -path ./tmp -prune -o -print | LC_ALL=C sort); }

files > "$work/before"
inside dpkg --install /tmp/gputopo.deb
inside gputop --version
inside gputopo --version
inside gputop check --quick --demo hgx-h100-8
inside gputop topo --demo hgx-h100-8 > "$work/topo"
inside gputop completion bash > "$work/completion"
cmp "$work/completion" "$root/usr/share/bash-completion/completions/gputop"
inside man --where gputop
inside gputop doctor > "$work/doctor"
inside dpkg --purge gputopo
files > "$work/after"
# The caches that dpkg and man keep of themselves are not ours.
left=$(diff "$work/before" "$work/after" | grep '^[<>]' | grep -v ' ./var/\(cache/man\|lib/dpkg\|log\)/' || true)
if [ -n "$left" ]; then
    printf 'left behind, or gone:\n%s\n' "$left" >&2
    exit 1
fi
echo "installed, tried, removed; nothing is left"
