// What the text layer needs of a model's files, as plain data: the tokenizer's own files of a folder,
// or the vocabulary inside a GGUF file. Building a tokenizer from them is text/'s work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/artifacts/model_files.h"

namespace tessera::artifacts {

class GgufFile;

/// The fields `tokenizer.ggml.*` of a GGUF file; absent ones are empty.
struct GgufVocabulary {
  std::string model;                // "gpt2" (byte-level BPE), "llama" (SentencePiece), ...
  std::string pre;                  // name of the pre-tokenizer
  std::vector<std::string> tokens;  // one per id; bytes as the file has them
  std::vector<float> scores;        // per token, or empty; never NaN
  std::vector<int32_t>
      token_types;  // per token, or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;  // "left right", first merge first
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<uint32_t> bos;  // ids are below tokens.size()
  std::optional<uint32_t> eos;
  std::optional<uint32_t> eot;
  std::optional<uint32_t> eom;
  std::optional<uint32_t> unk;
  std::optional<uint32_t> pad;
};

/// The data a tokenizer and its chat template are built from. Exactly one of `tokenizer_json` and
/// `vocabulary` is there.
struct TokenizerFiles {
  std::string origin;                        // folder or file, for messages
  std::string tokenizer_json;                // bytes of tokenizer.json
  std::string tokenizer_config_json;         // text of tokenizer_config.json, or ""
  std::optional<GgufVocabulary> vocabulary;  // of a GGUF file
  std::string chat_template;                 // Jinja text, or "" when the model has none
};

/// Reads them. In a folder the chat template is taken from chat_template.jinja, else
/// chat_template.json, else tokenizer_config.json.
/// Throws InvalidArtifact when tokenizer.json is missing or a file has the wrong form, Unsupported
/// when a folder has only a SentencePiece tokenizer.model.
TokenizerFiles read_tokenizer_files(const ModelFiles& files);

/// The vocabulary in a file's metadata. Throws InvalidArtifact naming the key when there is none,
/// lists differ in length, or an id is outside the vocabulary.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

/// The chat template in the text of a tokenizer_config.json or chat_template.json: a string, or the
/// one named "default" (else the first) of a list of {name, template}; "" when there is none.
/// Throws InvalidArtifact on a wrong form; `origin` names the file.
std::string chat_template_in(std::string_view json, const std::string& origin);

}  // namespace tessera::artifacts
