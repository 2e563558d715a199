#!/usr/bin/env bash
# venv.sh FOLDER: an environment for a checkout, with rackbench installed in place and its tools.
#
# Run from the checkout's root. Does nothing where FOLDER was made by this pyproject.toml.
set -euo pipefail

readonly folder=${1:?usage: venv.sh FOLDER}
readonly stamp=$folder/.pyproject.sha256

say() { echo "venv: $*"; }
die() {
  echo "venv: $*" >&2
  exit 1
}

# A version manager's shim is found on the path though nothing stands behind it, so each is asked.
find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

make_venv() {
  local python
  python=$(find_python) || die "there is no Python 3.11 or later on the path; install one, or name it: make PYTHON=/path/to/python"
  say "making $folder with $("$python" --version)"
  "$python" -m venv "$folder" >/dev/null 2>&1 && return
  rm -rf "$folder"
  # Debian keeps the module in a package of its own.
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    local release
    release=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
    say "installing python$release-venv"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "python$release-venv" >/dev/null 2>&1 ||
      { apt-get -qq update && apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "python$release-venv" >/dev/null; } ||
      die "apt-get could not install python$release-venv"
  fi
  "$python" -m venv "$folder" >/dev/null || die "$python cannot make environments; install its venv module (Debian: apt-get install python3-venv)"
}

[[ -f pyproject.toml ]] || die "there is no pyproject.toml here; run from the checkout's root"
wanted=$(sha256sum <pyproject.toml)
if [[ -x $folder/bin/python && $(cat "$stamp" 2>/dev/null) == "$wanted" ]]; then
  exit
fi
# What a moved or half-made environment left does not start.
"$folder/bin/python" -m pip --version >/dev/null 2>&1 || { rm -rf "$folder" && make_venv; }
say "installing rackbench and its tools into $folder"
# Dependency groups need pip 25.1.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --upgrade 'pip>=25.1'
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --editable '.[compose,engine]' --group dev
echo "$wanted" >"$stamp"
