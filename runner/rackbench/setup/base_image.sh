#!/usr/bin/env bash
# base_image.sh [--rebuild]: make the image that the shipped tasks start from.
#
# Does nothing where the image exists. Otherwise takes its files from the cache; or, where a
# registry answers, from the public Debian image; or from this machine's own Debian mirror. The
# image is tagged only after a container of it has worked.
set -euo pipefail

readonly image=rackbench/base:1
readonly suite=bookworm
readonly public_image=debian:$suite-slim
readonly pull_seconds=120
readonly packages=(
  bash coreutils git make gcc libc6-dev python3 python3-pytest python3-yaml sqlite3 cron procps
  less jq ca-certificates
)
readonly cache=${RACKBENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rackbench}/base
# Another choice of packages is another file.
readonly files=$cache/${image//[:\/]/-}-$(dpkg --print-architecture 2>/dev/null || uname -m)-$(echo "${packages[@]}" | cksum | cut -d' ' -f1).tar.gz

say() { echo "base image: $*"; }
die() {
  echo "base image: $*" >&2
  exit 1
}

pull() {
  docker image inspect "$public_image" >/dev/null 2>&1 && return
  say "asking the registry for $public_image"
  timeout "$pull_seconds" docker pull --quiet "$public_image" >/dev/null 2>&1
}

# Leaves the system in /, without what no task needs. Runs inside the new system.
readonly clean='
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/* \
    /usr/share/doc/* /usr/share/info/* /usr/share/man/* /usr/share/locale/* /usr/share/lintian
  mkdir -p /app
'

from_registry() {
  local container rc=0
  say "installing packages on top of $public_image"
  container=$(docker create --label rackbench.base=building "$public_image" sh -ec "
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends ${packages[*]} >/dev/null
    $clean")
  { docker start --attach "$container" && docker export "$container" | gzip -1 >"$work/files.tar.gz"; } || rc=$?
  docker rm --force "$container" >/dev/null
  return "$rc"
}

from_mirror() {
  ((EUID == 0)) || die "no registry answers, and only root can build from a Debian mirror; run this as root: bash $(realpath "$0")"
  local id='' mirror
  id=$(. /etc/os-release && echo "${ID:-}:${VERSION_CODENAME:-}")
  [[ $id == debian:* ]] || die "no registry answers and this machine is no Debian with a mirror; load $public_image with: docker load"
  mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="${id#*:}" '$1 == release && $2 == "main" {print $3; exit}')
  [[ -n $mirror ]] || die "apt on this machine knows no mirror of Debian's main component"
  if ! command -v debootstrap >/dev/null; then
    say "installing debootstrap"
    install_debootstrap
  fi
  local proxy=''
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  say "building Debian $suite from this machine's mirror (a minute or two; log: $work/debootstrap.log)"
  http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase --include="$(IFS=, && echo "${packages[*]}")" \
    "$suite" "$work/root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" "$work/root/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    die "debootstrap failed; its last words are above"
  }
  chroot "$work/root" sh -ec "$clean"
  : >"$work/root/etc/resolv.conf"
  : >"$work/root/etc/hostname"
  tar --create --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    --directory="$work/root" . | gzip -1 >"$work/files.tar.gz"
}

install_debootstrap() {
  export DEBIAN_FRONTEND=noninteractive
  local install=(apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends debootstrap) attempt
  "${install[@]}" >/dev/null 2>&1 && return
  for attempt in 1 2 3; do
    apt-get -qq update && "${install[@]}" >/dev/null && return
    ((attempt == 3)) || sleep 5
  done
  die "apt-get could not install debootstrap"
}

# A tag only for what works.
import() {
  local id
  say "importing $files"
  id=$(docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENV LANG=C.UTF-8' \
    --change 'WORKDIR /app' \
    --change 'CMD ["bash"]' \
    --change 'LABEL rackbench.base=1' \
    - <"$files") || return 1
  docker run --rm --network none --label rackbench.base=proof "$id" bash -ec '
    test "$PWD" = /app
    python3 -c "import pytest, sqlite3, yaml"
    printf "int main(void) { return 0; }" >a.c
    printf "all:\n\tgcc -o a a.c\n" >Makefile
    make -s
    ./a
    git init -q .
    test "$(echo "{\"a\": 1}" | jq .a)" = "$(sqlite3 :memory: "select 1")"
    for program in cron crontab less ps; do command -v "$program" >/dev/null; done
  ' || {
    docker rmi "$id" >/dev/null
    return 1
  }
  docker tag "$id" "$image"
}

command -v docker >/dev/null || die "there is no docker command; run: rackbench doctor --fix docker"
docker version --format '{{.Server.Version}}' >/dev/null 2>&1 ||
  die "no Docker daemon answers; run: rackbench doctor --fix docker"
rebuild=
[[ ${1:-} == --rebuild ]] && rebuild=yes
if [[ -z $rebuild ]] && docker image inspect "$image" >/dev/null 2>&1; then
  say "$image is there"
  exit
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock --wait 1800 9 || die "another build has held $cache/lock for half an hour"
if [[ -z $rebuild ]] && docker image inspect "$image" >/dev/null 2>&1; then
  say "$image is there"
  exit
fi
if [[ -z $rebuild && -s $files ]]; then
  if import; then
    say "$image is there, from the cache"
    exit
  fi
  say "the cached files do not work; building them anew"
fi
work=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
if pull; then
  from_registry || die "building on top of $public_image failed"
else
  say "no registry answers"
  from_mirror
fi
# Into the cache whole or not at all.
mv "$work/files.tar.gz" "$files"
import || die "the new image does not work; its files are $files"
say "$image is there"
