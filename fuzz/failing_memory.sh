#!/usr/bin/env bash
# Build and run failing_memory.py: each allocation of the C core fails, one after the other. Needs clang, python3-config.
set -euo pipefail
cd "$(dirname "$0")"
: "${CC:=clang}" "${PYTHON:=python3}"
native=../src/mixling/native
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
wraps=(malloc calloc realloc free PyMem_Malloc PyMem_Free PyBytes_FromStringAndSize PyList_New PyUnicode_FromStringAndSize PySequence_Tuple)
sources=$(ls $native/*.c $native/{texts,vectors,linear,training}/*.c | grep -v /example.c)
flags="-std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -I$native"
for source in $sources; do # files of several folders have one name
    name=${source#"$native/"}
    $CC $flags $(python3-config --includes) -c "$source" -o "$build/${name//\//-}.o"
done
$CC $flags $(python3-config --includes) failing_memory.c "$build"/*.o "${wraps[@]/#/-Wl,--wrap=}" \
    $(python3-config --embed --ldflags) -lm -o "$build/failing_memory"
ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=. "$build/failing_memory" failing_memory.py \
    answers,branch,int8,mixer,others,others-tags,pairs,tags,recurrent,sparse-branch
