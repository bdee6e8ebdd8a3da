// Text to token ids and back.
//
//   Tokenizer tokenizer = Tokenizer::load(source);
//   std::vector<int32_t> ids = tokenizer.encode("Hello");
//   Detokenizer stream(tokenizer);
//   for (int32_t id : ids) std::cout << stream.append(id);
//   std::cout << stream.finish();
//
// Encoding is Hugging Face's `tokenizers`, so ids are those the model was trained with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer_source.h"

namespace tessera {

struct EncodeOptions {
  bool add_special_tokens = true;    // put BOS (and what else the tokenizer defines) around the text
  bool parse_special_tokens = true;  // special tokens spelled in the text become their ids
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

class Detokenizer;

/// A loaded tokenizer. A handle: copies share one immutable object, which may be used from any
/// number of threads at the same time.
class Tokenizer {
 public:
  /// Builds the tokenizer of `source`. Takes 30 to 300 ms.
  /// Throws InvalidArtifact for a malformed file or a vocabulary that contradicts itself;
  /// Unsupported, naming what is supported, for a model other than BPE, Unigram or SentencePiece
  /// BPE, for an unknown GGUF pre-tokenizer, and for decoders that need more than one token at a
  /// time (WordPiece). InvalidArgument when `source` is empty. The file's truncation, padding and
  /// dropout are not applied.
  static Tokenizer load(const TokenizerSource& source);

  /// Turns `text` into ids, at about 1 MB/s. Bytes that are not UTF-8 count as U+FFFD, one per
  /// maximal undecodable part (as Python's errors="replace").
  /// Throws InvalidArgument on more than 500000 white-space characters in a row, which the
  /// pre-tokenizer's regular expressions cannot split.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of `ids`; always valid UTF-8. Equals what a Detokenizer yields for the same ids.
  /// Undecodable bytes become U+FFFD, one per maximal undecodable part.
  /// Throws InvalidArgument for an id outside of [0, vocab_size()).
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  /// The bytes that `id` contributes to text: a part of a character for some tokens, nothing for an
  /// id without a token. Valid as long as a copy of this handle. Throws InvalidArgument as decode.
  std::string_view token_bytes(int32_t id) const;

  /// The id of the token spelled `token` in the vocabulary ("<|im_end|>"; "Ġhello" in byte-level
  /// vocabularies).
  std::optional<int32_t> token_id(std::string_view token) const;

  /// Whether `id` is a special (control) token. Throws InvalidArgument as decode.
  bool is_special(int32_t id) const;

  /// One more than the largest id. The model's embedding may have more rows (padding).
  int32_t vocab_size() const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;

  /// Ids that end a turn or a text, ascending: EOS, the end-of-turn and end-of-message ids of a GGUF
  /// file, and the special tokens that chat formats are known to use for it.
  std::vector<int32_t> end_of_turn_ids() const;

  /// The spellings of BOS and EOS; "" where there is none.
  std::string bos_token() const;
  std::string eos_token() const;

  /// The `origin` of the source.
  const std::string& origin() const;

 private:
  friend class ChatTemplate;
  friend class Detokenizer;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Turns ids into text one at a time, for streaming. Each returned piece is valid UTF-8: bytes of a
/// character that is not complete yet are held back. The pieces joined are Tokenizer::decode() of
/// all ids. Not thread-safe; owns a handle of its tokenizer.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, const DecodeOptions& options = {});

  /// The text that `id` completes; "" while a character is incomplete.
  /// Throws InvalidArgument for an id outside of [0, vocab_size()), and is then unchanged.
  std::string append(int32_t id);

  /// Ends the text: one U+FFFD if a character was left incomplete, else "". The next append starts
  /// a new text.
  std::string finish();

 private:
  void append_to(int32_t id, std::string& out);

  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string pending_;       // up to three bytes of an incomplete character
  bool is_at_start_ = true;   // no token has been taken yet
  bool strips_space_ = true;  // nothing has been emitted yet, so a leading space is dropped
  friend class Tokenizer;
};

}  // namespace tessera
