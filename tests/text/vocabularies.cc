#include "tests/text/vocabularies.h"

#include <array>

namespace tessera::text_testing {

namespace {

std::string utf8(uint32_t code) {  // below U+0800
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

std::array<std::string, 256> byte_level_alphabet() {
  std::array<std::string, 256> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = utf8(is_printable ? byte : next++);
  }
  return alphabet;
}

}  // namespace

std::string byte_level_spelling(std::string_view bytes) {
  static const std::array<std::string, 256> alphabet = byte_level_alphabet();
  std::string out;
  for (const char c : bytes) out += alphabet[static_cast<uint8_t>(c)];
  return out;
}

TokenizerSource byte_level_source(const std::vector<std::string>& pieces) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "smollm";
  v.bos_id = 0;
  v.eos_id = 1;
  v.tokens = {"<|endoftext|>", "<|im_end|>"};
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  }
  for (const std::string& piece : pieces) v.tokens.push_back(byte_level_spelling(piece));
  v.token_types.assign(v.tokens.size(), 1);
  v.token_types[0] = v.token_types[1] = 3;
  // A piece grows from its front, one byte a merge; what lies between becomes a token as well.
  for (const std::string& piece : pieces) {
    for (std::size_t size = 1; size < piece.size(); ++size) {
      const std::string whole = byte_level_spelling(piece.substr(0, size + 1));
      v.merges.push_back(byte_level_spelling(piece.substr(0, size)) + " " +
                         byte_level_spelling(piece.substr(size, 1)));
      if (size + 1 < piece.size()) {
        v.tokens.push_back(whole);
        v.token_types.push_back(1);
      }
    }
  }
  if (v.merges.empty()) {
    v.tokens.push_back("zz");
    v.token_types.push_back(1);
    v.merges.push_back("z z");
  }
  TokenizerSource source;
  source.origin = "tiny.gguf";
  source.gguf = v;
  return source;
}

TokenizerSource sentencepiece_source() {
  GgufVocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.token_types = {2, 3, 3};
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    v.token_types.push_back(6);
  }
  v.scores.assign(v.tokens.size(), 0.0F);
  float score = 0.0F;
  for (const char* piece : {"▁the", "▁cat", "▁", "t", "h", "e", "c", "a", "he", "at", "▁t", "▁c", "th"}) {
    v.tokens.emplace_back(piece);
    v.token_types.push_back(1);
    v.scores.push_back(score -= 1.0F);
  }
  TokenizerSource source;
  source.origin = "tiny-sentencepiece.gguf";
  source.gguf = v;
  return source;
}

TokenizerSource json_source(std::string_view decoder) {
  TokenizerSource source;
  source.origin = "tokenizer.json";
  source.tokenizer_json = R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 8, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 9, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [8], "tokens": ["<s>"]}}},
    "decoder": )" + std::string(decoder) +
                          R"(,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
      "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "Ġ": 4, "he": 5, "ll": 6, "hell": 7},
      "merges": ["h e", "l l", "he ll"]}})";
  source.tokenizer_config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})";
  return source;
}

}  // namespace tessera::text_testing
