// What a tokenizer and a chat template are built from, as plain data: artifacts/ reads it from a
// model's files, text/ builds from it, and neither knows the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// The vocabulary of a GGUF file, field by field (`tokenizer.ggml.*`). Absent fields stay empty.
struct GgufVocabulary {
  std::string model;                     // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;                       // name of the pre-tokenizer, for gpt2; "" means "default"
  std::vector<std::string> tokens;       // spelling of each id
  std::vector<float> scores;             // one per token; needed by llama without merges
  std::vector<int32_t> token_types;      // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;       // "left right", by rank; needed by gpt2
  std::optional<bool> add_bos;           // absent: as the kind of vocabulary does
  std::optional<bool> add_eos;           // absent: false
  std::optional<bool> add_space_prefix;  // absent: true for llama, false for gpt2
  std::optional<int32_t> bos_id, eos_id, eot_id, eom_id, unk_id, pad_id;  // negative counts as absent
};

/// Where a tokenizer and its chat template come from: either `gguf` or `tokenizer_json`.
struct TokenizerSource {
  std::string origin;                  // file or model name for error messages
  std::string tokenizer_json;          // content of tokenizer.json
  std::string tokenizer_config;        // content of tokenizer_config.json for its special tokens, or ""
  std::optional<GgufVocabulary> gguf;  // takes precedence over tokenizer_json
  std::string chat_template;           // Jinja, already picked from the model's files; "" = none
};

}  // namespace tessera
