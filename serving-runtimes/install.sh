#!/bin/sh
# The steps of the image, as root inside it: Pilotlight beside the vLLM that is there, and a user who is not root.
#
#   install.sh WHEEL BASE
#
# WHEEL: Pilotlight's wheel. BASE: what the image is made from, by digest (NAME@sha256:…).
# PYTHON: the interpreter that has vLLM, python3 by default. pip's own variables (PIP_…) count as always.
set -eu

wheel=$1 base=$2
python=${PYTHON:-python3}
user=10001
say() { echo "install.sh: $*"; }
fail() {
  echo "install.sh: error: $*" >&2
  exit 1
}

case $base in
  *sha256:????????????????????????????????????????????????????????????????) ;;
  *) fail "BASE is $base: name it by digest, a tag would be another image tomorrow" ;;
esac
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than Python 3.11"

# torch.compile and Triton build with it, on a warm start too; a C compiler alone is not enough.
if ! command -v g++ >/dev/null; then
  say "installing g++"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends g++ >/dev/null
  apt-get clean
  rm -rf /var/lib/apt/lists/*
fi

# Nothing that vLLM came with may change: its versions are constraints, and are looked at again afterwards.
# The distribution's mark of a managed Python means people; an image is managed by what built it.
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m pip list --format=freeze >"$scratch/before"
# What is no plain version (a local build) cannot be a constraint; pip leaves what is installed alone anyway.
grep -E '^[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.!+]*$' "$scratch/before" >"$scratch/constraints" || true
say "installing $(basename "$wheel")"
if ! "$python" -m pip install --constraint "$scratch/constraints" "$wheel" >"$scratch/log" 2>&1; then
  # Not --quiet: which package is in the way pip says among what it tells otherwise.
  cat "$scratch/log" >&2
  fail "pip could not install $(basename "$wheel") beside what vLLM came with"
fi
"$python" -m pip list --format=freeze >"$scratch/after"
changed=$(grep -vxFf "$scratch/after" "$scratch/before" || true)
[ -z "$changed" ] || fail "the installation changed what vLLM came with: $changed"

# One user without privileges, in the group 0 as platforms with a user of their own for each namespace want it.
grep -q "^[^:]*:[^:]*:$user:" /etc/passwd || echo "pilotlight:x:$user:0::/var/lib/pilotlight:/usr/sbin/nologin" >>/etc/passwd
for directory in /var/lib/pilotlight /opt/prebuilt-cache; do
  mkdir -p "$directory"
done
chown "$user:0" /var/lib/pilotlight
chmod 0770 /var/lib/pilotlight

# What compiled code depends on beside Python's wheels: the base and each Debian package. Not this image's own digest, which
# no image can hold, and which would make a new Pilotlight compile everything anew.
mkdir -p /etc/pilotlight
packages=$(dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' | LC_ALL=C sort)
printf 'sha256:%s\n' "$(printf '%s\n%s\n' "${base##*@}" "$packages" | sha256sum | cut -d' ' -f1)" >/etc/pilotlight/image

pilotlight-engine --version >/dev/null || fail "pilotlight-engine does not run"
say "done: pilotlight-engine $(pilotlight-engine --version), $(g++ --version | head -n1), image $(cat /etc/pilotlight/image)"
