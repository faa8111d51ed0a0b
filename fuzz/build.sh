#!/usr/bin/env bash
# Build the fuzz targets into $OUT, as OSS-Fuzz does; there $CC, $CFLAGS and $LIB_FUZZING_ENGINE are set.
#
# The targets in Python are scripts: they need no build but their seeds and dictionaries.
set -euo pipefail
cd "$(dirname "$0")"
: "${OUT:?names the folder of the programs}" "${CC:=clang}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"
: "${CFLAGS:=-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined}"
native=../src/mixling/native
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

compile() { # SOURCE [FLAGS]
    local name=${1#../} # with its folder: two have a kernels.c
    $CC $CFLAGS -std=gnu11 -I$native "${@:2}" -c "$1" -o "$objects/${name//\//_}.o"
}

mkdir -p "$OUT"
cp -r models "$OUT/"
for source in $native/*.c; do
    case $source in */python.c | */example.c) continue ;; esac
    compile "$source"
done
for target in model_file text json columns; do
    $CC $CFLAGS -std=gnu11 -I$native $LIB_FUZZING_ENGINE $target.c "$objects"/*.o -lm -o "$OUT/$target"
done

# Python and the modules become parts of this program.
for source in $native/python.c $native/{texts,vectors,linear,training}/*.c; do
    compile "$source" $(python3-config --includes)
done
$CC $CFLAGS -std=gnu11 -I$native $(python3-config --includes) $LIB_FUZZING_ENGINE entry_points.c "$objects"/*.o \
    $(python3-config --embed --ldflags) -lm -o "$OUT/entry_points"
cp entry_points.py http_requests.py readers.py "$OUT/"
cp ../tests/golden/model-v1.onnx "$OUT/golden.onnx"

cp ./*.dict "$OUT/"
for name in model_file text json columns entry_points http_requests readers; do # OSS-Fuzz unpacks them
    inputs=(corpus/$name/*)
    if [ $name = model_file ]; then inputs+=(models/*); fi
    python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" "${inputs[@]}"
done
