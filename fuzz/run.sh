#!/usr/bin/env bash
# Run fuzz targets one after the other: fuzz/run.sh SECONDS [TARGET ...]; exit 1 with the first finding.
#
# Inputs that reach new code are added to $WORK/TARGET (build/fuzz-corpus), a finding is written to $WORK/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${OUT:=$PWD/build/fuzz}" "${WORK:=$PWD/build/fuzz-corpus}" "${PYTHON:=python}"
seconds=${1:?seconds for each target}
targets=("${@:2}")
if [ ${#targets[@]} = 0 ]; then targets=(model_file text json columns entry_points http_requests readers); fi
if [ ! -x "$OUT/model_file" ]; then OUT=$OUT fuzz/build.sh; fi
declare -A lengths=([model_file]=40000 [text]=4000 [json]=4000 [columns]=4000 [entry_points]=30000 [http_requests]=6000 [readers]=4000)
export ASAN_OPTIONS=detect_leaks=1 OMP_NUM_THREADS=1
mkdir -p "$WORK/findings"
for target in "${targets[@]}"; do
    program=("$OUT/$target")
    if [ ! -x "${program[0]}" ]; then program=("$PYTHON" "fuzz/$target.py"); fi
    if [ "$target" = entry_points ]; then ASAN_OPTIONS=detect_leaks=0; else ASAN_OPTIONS=detect_leaks=1; fi # Python keeps some
    options=(-max_total_time="$seconds" -max_len="${lengths[$target]}" -rss_limit_mb=2560 -timeout=25 -print_final_stats=1
        -artifact_prefix="$WORK/findings/$target-")
    if [ -f "fuzz/$target.dict" ]; then options+=(-dict="fuzz/$target.dict"); fi
    corpora=("$WORK/$target" "fuzz/corpus/$target")
    if [ "$target" = model_file ]; then corpora+=(fuzz/models); fi
    mkdir -p "$WORK/$target"
    echo "== $target"
    "${program[@]}" "${options[@]}" "${corpora[@]}" 2>&1 | grep -v -E '^(#|INFO|WARNING)' || exit 1
done
