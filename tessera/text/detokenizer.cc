// Decoding, whole or one id at a time: the bytes of the tokens, read as UTF-8.
#include <utility>

#include "tessera/text/tokenizer_impl.h"
#include "tessera/text/utf8.h"
#include "tessera/tokenizer.h"

namespace tessera {

Detokenizer::Detokenizer(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

void Detokenizer::append_to(int32_t id, std::string& out) {
  const Tokenizer::Impl& impl = *tokenizer_.impl_;
  impl.check_id(id);
  if (options_.skip_special_tokens && impl.is_special(id)) {
    return;
  }
  std::string_view bytes = impl.bytes_of(id);
  if (std::exchange(is_at_start_, false) && impl.vocabulary.first_token_drops_spaces) {
    for (const char c : bytes) {
      if (c != ' ') pending_ += c;
    }
  } else {
    // The first byte of the text decides: SentencePiece writes a space before the first word.
    if (!bytes.empty() && std::exchange(strips_space_, false) && impl.vocabulary.strips_leading_space &&
        bytes.front() == ' ') {
      bytes.remove_prefix(1);
    }
    pending_ += bytes;
  }
  text::move_utf8(pending_, out);
}

std::string Detokenizer::append(int32_t id) {
  std::string out;
  append_to(id, out);
  return out;
}

std::string Detokenizer::finish() {
  const bool is_cut = !pending_.empty();
  pending_.clear();
  is_at_start_ = true;
  strips_space_ = true;
  return std::string(is_cut ? text::kReplacement : "");
}

}  // namespace tessera
