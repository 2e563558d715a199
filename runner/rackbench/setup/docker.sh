#!/usr/bin/env bash
# docker.sh: see to it that a Docker daemon answers on this machine.
#
# Does nothing where one answers already. Otherwise, as root: installs Debian's docker.io where it
# is missing, starts the daemon and waits until it answers. May be called any number of times, and
# by several at once.
set -euo pipefail

readonly host=${DOCKER_HOST:-unix:///var/run/docker.sock}
readonly log=/var/log/dockerd.log
readonly lock=/var/run/rackbench-docker.lock
readonly start_seconds=60

say() { echo "docker: $*"; }
die() {
  echo "docker: $*" >&2
  exit 1
}

# A Debian machine without curl still has the client, once docker.io is there.
answers() {
  if [[ $host == unix://* ]] && command -v curl >/dev/null; then
    [[ $(curl --silent --max-time 5 --unix-socket "${host#unix://}" http://docker/_ping) == OK ]]
  else
    command -v docker >/dev/null && timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
  fi
}

# Whether the process that a pid file names is there, is what it should be, and is no zombie.
lives() {
  local name=$1 file=$2 pid state
  pid=$(cat "$file" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$name" ]] || return 1
  state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
  [[ -n $state && $state != Z ]]
}

install() {
  command -v apt-get >/dev/null || die "there is no dockerd and no apt-get; install a Docker daemon"
  say "installing docker.io"
  export DEBIAN_FRONTEND=noninteractive
  # The package lists may be empty or old, and another apt may hold their lock for a while.
  local packages=(apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends docker.io)
  local output attempt
  if output=$("${packages[@]}" 2>&1); then return; fi
  for attempt in 1 2 3 4 5 6; do
    if output=$(apt-get -qq update 2>&1 && "${packages[@]}" 2>&1); then return; fi
    ((attempt == 6)) || sleep 5
  done
  echo "$output" | tail -n 20 >&2
  die "apt-get could not install docker.io; its last words are above"
}

mount_cgroups() {
  grep -q ' /sys/fs/cgroup' /proc/self/mounts && return
  say "mounting the control groups"
  local controllers controller
  controllers=$(awk '!/^#/ && $2 != 0 {print $1}' /proc/cgroups)
  if [[ -z $controllers ]]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    return
  fi
  mount -t tmpfs cgroup /sys/fs/cgroup
  for controller in $controllers; do
    mkdir -p "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" "$controller" "/sys/fs/cgroup/$controller" ||
      rmdir "/sys/fs/cgroup/$controller"
  done
}

mtu() {
  local interface
  interface=$(awk '$2 == "00000000" {print $1; exit}' /proc/net/route 2>/dev/null)
  cat "/sys/class/net/${interface:-none}/mtu" 2>/dev/null || echo 1500
}

# The daemon refuses a setting that stands in its configuration file and among its flags.
flags=()
flag() {
  local key=$1
  shift
  grep -qs "\"$key\"" /etc/docker/daemon.json || flags+=("$@")
}

daemon=
start() {
  local file
  if lives dockerd /var/run/docker.pid; then
    say "a daemon is there and does not answer yet"
    return
  fi
  # A dead or zombie containerd counts as running for the daemon, which then waits for it in vain.
  rm -f /var/run/docker.pid
  for file in /var/run/docker/containerd/*.pid; do
    [[ -e $file ]] && ! lives containerd "$file" && rm -f "$file"
  done
  if [[ -d /run/systemd/system ]] && systemctl cat docker.service >/dev/null 2>&1; then
    say "starting docker.service"
    systemctl start docker.service || die "systemctl start docker.service failed; see: journalctl -u docker"
    return
  fi
  mount_cgroups
  flag live-restore --live-restore
  flag mtu --mtu "$(mtu)"
  flag log-opts --log-opt max-size=10m
  flag default-address-pools --default-address-pool base=10.213.0.0/16,size=26
  say "starting dockerd ${flags[*]} (log: $log)"
  # Far from any leftovers of this shell: no open lock, no terminal, no folder, no process group.
  (cd / && exec setsid dockerd "${flags[@]}" </dev/null >>"$log" 2>&1 9>&-) &
  daemon=$!
}

await() {
  local began=$SECONDS why=
  until answers; do
    if [[ -n $daemon ]] && ! kill -0 "$daemon" 2>/dev/null; then
      why="dockerd ended at once"
    elif ((SECONDS - began >= start_seconds)); then
      why="no daemon answered at $host within $start_seconds s"
    fi
    if [[ -n $why ]]; then
      if [[ -s $log ]]; then
        echo "docker: the end of $log:" >&2
        tail -n 20 "$log" >&2
      fi
      die "$why"
    fi
    sleep 0.2
  done
}

if answers; then
  say "a daemon answers at $host"
  exit
fi
[[ $host == unix:///var/run/docker.sock || $host == unix:///run/docker.sock ]] ||
  die "no daemon answers at DOCKER_HOST=$host; start it there, or unset DOCKER_HOST to use this machine"
if ((EUID != 0)); then
  if [[ -S ${host#unix://} && ! -w ${host#unix://} ]]; then
    die "$(id -un) may not talk to ${host#unix://}; run as root: usermod -aG docker $(id -un), then log in again"
  fi
  die "no daemon answers at $host, and only root can start one; run this as root: bash $(realpath "$0")"
fi
exec 9>"$lock"
flock --wait 600 9 || die "another set-up of Docker has held $lock for ten minutes"
if ! answers; then
  command -v dockerd >/dev/null || install
  start
  await
fi
say "a daemon answers at $host"
