#!/bin/sh
# Installs the Debian packages that building and testing flashc need, if any is missing. Needs root or sudo only then.
# python3-venv is for `make test-torch`, which installs the current PyTorch, NumPy and pytest of
# test/python/requirements.txt from PyPI into build/venv-torch (utils/make_venv.sh).
set -eu

packages="
  clang-22 clang-format-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  cmake ninja-build make g++ libgtest-dev python3 python3-autopep8 python3-numpy python3-pytest python3-torch
  python3-venv xz-utils libzstd-dev zlib1g-dev libxml2-dev libedit-dev libcurl4-openssl-dev"

missing=
for package in $packages; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: run as root, or install:$missing" >&2; exit 1; }
  sudo=sudo
fi
echo "Installing$missing"
$sudo apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
