#!/usr/bin/env bash
# Makes gputopo_VERSION_ARCHITECTURE.deb for the Python of the distribution that it is built on.
#
#     recipes/debian/build.sh [FOLDER]      by default dist
#
# Needs dpkg-deb, and python3 with pip somewhere on PATH, and a package index. No distribution has a
# Textual that is new enough, so the package holds a virtual environment, /usr/lib/gputopo, with all
# that gputop needs but Python itself. It runs no script when it is installed or removed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(realpath -m "${1:-$root/dist}")

system=/usr/bin/python3
minor=$("$system" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/gputop/__init__.py")
architecture=$(dpkg --print-architecture)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
home=$stage/usr/lib/gputopo
site=$home/lib/python$minor/site-packages
mkdir -p "$site" "$home/bin" "$stage/usr/bin" "$stage/DEBIAN" "$stage/usr/share/man/man1" \
    "$stage/usr/share/doc/gputopo" "$folder"

# From a copy: setuptools would leave a build folder in the checkout, or pick up an old one.
mkdir "$work/source"
(cd "$root" && cp -R LICENSE README.md pyproject.toml docs gputop probes themes topology "$work/source")
find "$work/source" -name __pycache__ -prune -exec rm -rf {} +
python3 -m pip wheel --quiet --no-deps --wheel-dir "$work" "$work/source"
python3 -m pip install --quiet --no-compile --target "$site" --python-version "$minor" \
    --only-binary :all: "$work"/gputopo-*.whl
# What pip puts beside packages has the first lines of the Python that installed them.
rm -rf "$site/bin" "$site/share"

ln -s "/usr/bin/python$minor" "$home/bin/python"
cat > "$home/pyvenv.cfg" <<END
home = /usr/bin
include-system-site-packages = false
version = $("$system" -c 'import platform; print(platform.python_version())')
END
cat > "$stage/usr/bin/gputop" <<'END'
#!/usr/lib/gputopo/bin/python
from gputop.__main__ import main

main()
END
chmod 755 "$stage/usr/bin/gputop"
ln -s gputop "$stage/usr/bin/gputopo"
# Byte code with the paths that it will have; dpkg keeps the times that Python compares.
"$system" -m compileall -q -s "$stage" -p / "$site"

gzip --best --no-name < "$root/docs/gputop.1" > "$stage/usr/share/man/man1/gputop.1.gz"
ln -s gputop.1.gz "$stage/usr/share/man/man1/gputopo.1.gz"
complete() {
    mkdir -p "$stage/usr/share/$(dirname "$2")"
    PYTHONPATH=$site "$system" -B -m gputop completion "$1" > "$stage/usr/share/$2"
}
complete bash bash-completion/completions/gputop
complete zsh zsh/vendor-completions/_gputop
complete fish fish/vendor_completions.d/gputop.fish

{
    cat "$root/LICENSE"
    printf '\n/usr/lib/gputopo holds these libraries too, each with its licence beside it:\n'
    PYTHONPATH=$site "$system" -B "$here/libraries.py" "$site"
} > "$stage/usr/share/doc/gputopo/copyright"
printf 'gputopo (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- gputop <gputop@localhost>  %s\n' \
    "$version" "$(date --rfc-email --reference "$root/gputop/__init__.py")" |
    gzip --best --no-name > "$stage/usr/share/doc/gputopo/changelog.gz"

cat > "$stage/DEBIAN/control" <<END
Package: gputopo
Version: $version
Architecture: $architecture
Maintainer: gputop <gputop@localhost>
Installed-Size: $(du --summarize --block-size=1024 "$stage/usr" | cut -f 1)
Depends: python$minor, libc6, libgcc-s1
Section: utils
Priority: optional
Description: terminal explorer for the inside of a GPU node
 Shows the GPUs of a node, how NVLink, NVSwitch, xGMI, PCIe, NUMA and NICs
 tie them together, what NCCL or RCCL will do with that, whether the
 hardware delivers what it should, and, where not, why and what to do.
 .
 The command is gputop.
END
(cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"
file=$folder/gputopo_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$stage" "$file" > /dev/null
echo "$file: $(stat -c %s "$file") bytes"
