// Tiny vocabularies for the tests of text/, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera::text_testing {

/// Bytes as byte-level vocabularies spell them: printable Latin-1 as itself, the rest from U+0100 on.
std::string byte_level_spelling(std::string_view bytes);

/// A byte-level vocabulary: ids 0 "<|endoftext|>" (BOS) and 1 "<|im_end|>" (EOS), both control
/// tokens, 2 to 257 the bytes 0 to 255, then `pieces` (bytes), each reachable from its bytes.
TokenizerSource byte_level_source(const std::vector<std::string>& pieces = {});

/// The id of a single byte in byte_level_source().
inline int32_t byte_id(uint8_t byte) { return 2 + byte; }

/// The id of the n-th of `pieces` of byte_level_source().
inline int32_t piece_id(int32_t n) { return 258 + n; }

/// A SentencePiece vocabulary: 0 "<unk>", 1 "<s>", 2 "</s>", 3 to 258 the byte tokens, then
/// "▁the", "▁cat", "▁", "t", "h", "e", "c", "a", "he", "at", "▁t", "▁c", "th".
TokenizerSource sentencepiece_source();

/// A tokenizer.json over the letters h, e, l, o and the space, with merges to "hell", special tokens
/// <s> (added in front of every text) and </s>, and the given decoder.
TokenizerSource json_source(std::string_view decoder = R"({"type": "ByteLevel", "add_prefix_space": true,
                                                          "trim_offsets": true, "use_regex": true})");

}  // namespace tessera::text_testing
