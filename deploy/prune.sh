#!/bin/sh
# Remove from a folder of `pip install --target FOLDER "mixling[serve]"` what the server does not need to predict.
#
#     sh deploy/prune.sh FOLDER
set -eu
cd "$1"
# Names from the hub (hf:NAME) need huggingface_hub; the server of an image reads a folder.
for package in huggingface_hub hf_xet fsspec filelock tqdm yaml httpx2 httpcore2 truststore pygments setuptools pip; do
    rm -rf "$package" "$package"-*.dist-info
done
rm -rf _yaml PyYAML-*.dist-info pyyaml-*.dist-info Pygments-*.dist-info bin
# The library is for programs in C: the Python module has all that it needs.
rm -rf onnxruntime/capi/libonnxruntime.so.* onnxruntime/transformers onnxruntime/tools onnxruntime/quantization onnxruntime/datasets
rm -rf numpy/f2py numpy/_core/include numpy/_core/lib
find . -name tests -type d -prune -exec rm -r {} +
find . -name __pycache__ -type d -prune -exec rm -r {} +
find . -name '*.pyi' -delete
# Not those of numpy.libs, which no longer load when they are stripped.
for package in uvloop tokenizers pydantic_core safetensors; do
    find "$package" -name '*.so' -exec strip --strip-unneeded {} +
done
