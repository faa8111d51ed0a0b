#!/usr/bin/env bash
# Run tests with the native modules under gcc's address and undefined behavior sanitizers: fuzz/sanitized.sh TESTS
#
# Leaks are looked for by failing_memory.py: Python itself keeps memory to its end. What torch does is not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PYTHON:=python}"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r setup.py pyproject.toml README.md src tests tools benchmarks docs fuzz examples "$copy"/ 2>/dev/null || true
cd "$copy"
rm -f src/mixling/native/*.so
CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined" \
    $PYTHON setup.py -q build_ext --inplace
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so) $(gcc -print-file-name=libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 PYTHONPATH=src $PYTHON -m pytest -p no:cacheprovider "$@"
