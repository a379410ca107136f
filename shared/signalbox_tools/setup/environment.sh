#!/bin/sh
# Make the development environment .venv from locked requirements. Print what pip says only if that fails.
#
#   sh shared/signalbox_tools/setup/environment.sh LOCK...
#
# Python is the first of python3.13, python3.12, python3.11 and python3 that runs, is at least 3.11 and can make a virtual
# environment; PYTHON=... chooses another. Every package must match a hash in its lock. A changed lock is installed into
# the existing environment: packages that have left the locks stay until `make clean`. If an
# installation was killed, a package may have its metadata but not all of its files. uv and pip take it for installed, so then the
# environment is made again.
set -eu

environment=.venv
log=$(mktemp)
uv_lock=$(mktemp)
trap 'rm -f "$log" "$uv_lock"' EXIT
trap 'exit 130' INT TERM

is_recent='import sys; sys.exit(sys.version_info < (3, 11))'
can_make_environments='import ensurepip, venv'

is_whole='
import os, sys, sysconfig
from importlib.metadata import distributions

def has_its_size(file):
    try:
        return file.suffix == ".pyc" or file.size in (None, os.stat(file.locate()).st_size)
    except OSError:
        return False

installed = distributions(path=[sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
sys.exit(not all(package.files and all(map(has_its_size, package.files)) for package in installed))'

fail() {
    echo "$1" >&2
    exit 1
}

quietly() {
    "$@" >"$log" 2>&1 </dev/null || {
        status=$?
        cat "$log" >&2
        fail "Setting up $environment failed (status $status of: $1 ...). The lines above say why."
    }
}

# Runs each candidate: a version manager's shim may be on the PATH and lead nowhere.
find_python() {
    incomplete=
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
        "$candidate" -c "$is_recent" >/dev/null 2>&1 || continue
        if "$candidate" -c "$can_make_environments" >/dev/null 2>&1; then
            python=$candidate
            return
        fi
        incomplete=${incomplete:-$candidate}
    done
    [ -z "$incomplete" ] ||
        fail "$incomplete cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"
    fail "Python 3.11 or newer is needed: none of python3.13, python3.12, python3.11, python3 is one. PYTHON=... names another."
}

is_usable() {
    "$environment/bin/python" -c "$is_recent" >/dev/null 2>&1 &&
        "$environment/bin/python" -m pip --version >/dev/null 2>&1 &&
        "$environment/bin/python" -c "$is_whole" >/dev/null 2>&1
}

make_anew() {
    find_python
    echo "Setting up $environment (once: about 700 MB of packages, under a minute)" >&2
    quietly "$python" -m venv --clear "$environment"
}

if is_usable; then
    echo "Bringing $environment up to date with the locks" >&2
else
    make_anew
fi

pip_install() {
    "$environment/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes "$@"
}

uv_install() {
    [ -s "$uv_lock" ] && pip_install -r "$uv_lock" &&
        "$environment/bin/python" -m uv pip install --python "$environment" --compile-bytecode --require-hashes "$@"
}

sed -n '/^uv==/,/[^\\]$/p' "$@" >"$uv_lock"
for lock in "$@"; do
    set -- "$@" -r "$lock"
    shift
done
# uv takes ten seconds where pip takes a minute, but it does not read pip's settings. If it fails without them, or is
# not in the locks, pip installs the packages.
uv_install "$@" >/dev/null 2>&1 </dev/null || {
    is_usable || make_anew
    quietly pip_install "$@"
}

# The project's two packages, as a path relative to the folder of this file: `python -m signalbox_tools.local` finds them.
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' ../../../../shared >"$packages/signalbox.pth"

# The command `signalbox`, as a project that installs the package has it.
printf '#!/bin/sh\nexec "${0%%/*}/python" -m signalbox_tools "$@"\n' >"$environment/bin/signalbox"
chmod +x "$environment/bin/signalbox"

# From an archive of its classes, the emulator starts with half of the CPU time. Without an emulator, no archive is made.
"$environment/bin/python" -m signalbox_tools.local.store.firestore_emulator >/dev/null 2>&1 </dev/null || :
