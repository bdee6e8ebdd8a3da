// Loading and encoding over the Rust library, and the table of token bytes.
#include "tessera/tokenizer.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/text/rust_call.h"
#include "tessera/text/tokenizer_impl.h"

namespace tessera {

using text::slice;

namespace {

std::vector<tessera_text_slice> slices(const std::vector<std::string>& strings) {
  std::vector<tessera_text_slice> out;
  out.reserve(strings.size());
  for (const std::string& string : strings) out.push_back(slice(string));
  return out;
}

int32_t flag(const std::optional<bool>& value) { return value ? static_cast<int32_t>(*value) : -1; }

tessera_text_code build_from_gguf(const GgufVocabulary& v, tessera_text_tokenizer** tokenizer,
                                  tessera_text_buffer* error) {
  const std::vector<tessera_text_slice> tokens = slices(v.tokens);
  const std::vector<tessera_text_slice> merges = slices(v.merges);
  const tessera_text_gguf_vocabulary c{
      .model = slice(v.model),
      .pre = slice(v.pre),
      .tokens = tokens.data(),
      .n_tokens = tokens.size(),
      .scores = v.scores.data(),
      .n_scores = v.scores.size(),
      .token_types = v.token_types.data(),
      .n_token_types = v.token_types.size(),
      .merges = merges.data(),
      .n_merges = merges.size(),
      .add_bos = flag(v.add_bos),
      .add_eos = flag(v.add_eos),
      .add_space_prefix = flag(v.add_space_prefix),
      .bos_id = v.bos_id.value_or(-1),
      .eos_id = v.eos_id.value_or(-1),
      .eot_id = v.eot_id.value_or(-1),
      .eom_id = v.eom_id.value_or(-1),
      .unk_id = v.unk_id.value_or(-1),
      .pad_id = v.pad_id.value_or(-1),
  };
  return tessera_text_tokenizer_from_gguf(&c, tokenizer, error);
}

std::optional<int32_t> optional_id(int64_t id) {
  return id < 0 ? std::nullopt : std::optional(static_cast<int32_t>(id));
}

}  // namespace

void Tokenizer::Impl::check_id(int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.vocab_size) {
    base::fail_argument("[text.decode] token id; expected 0 to ", vocabulary.vocab_size - 1, ", got ", id);
  }
}

std::string_view Tokenizer::Impl::bytes_of(int32_t id) const {
  const uint64_t begin = vocabulary.offsets[id];
  const uint64_t end = vocabulary.offsets[id + 1];
  return {reinterpret_cast<const char*>(vocabulary.bytes) + begin, end - begin};
}

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::load(const TokenizerSource& source) {
  const std::string area = base::concat("[text.load] ", source.origin, source.origin.empty() ? "" : ": ");
  if (!source.gguf && source.tokenizer_json.empty()) {
    base::fail_argument(area, "no tokenizer; expected a tokenizer.json or the vocabulary of a GGUF file");
  }
  tessera_text_tokenizer* rust = nullptr;
  text::OutputText error;
  const tessera_text_code code =
      source.gguf ? build_from_gguf(*source.gguf, &rust, error.get())
                  : tessera_text_tokenizer_from_json(slice(source.tokenizer_json),
                                                     slice(source.tokenizer_config), &rust, error.get());
  text::check(code, error, area);
  auto impl = std::make_shared<Impl>();
  impl->origin = source.origin;
  impl->rust.reset(rust);
  tessera_text_tokenizer_vocabulary(rust, &impl->vocabulary);
  return Tokenizer(std::move(impl));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  text::Output<tessera_text_ids> ids;
  text::OutputText error;
  const tessera_text_code code =
      tessera_text_encode(impl_->rust.get(), slice(text), options.add_special_tokens,
                          options.parse_special_tokens, ids.get(), error.get());
  // The file is at fault, not the text.
  const bool names_file = code == TESSERA_TEXT_INVALID_ARTIFACT && !impl_->origin.empty();
  text::check(code, error,
              names_file ? base::concat("[text.encode] ", impl_->origin, ": ") : "[text.encode] ");
  std::vector<int32_t> out(ids->size);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int32_t>(ids->data[i]);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  Detokenizer stream(*this, options);
  std::string out;
  for (const int32_t id : ids) stream.append_to(id, out);
  out += stream.finish();
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  impl_->check_id(id);
  return impl_->bytes_of(id);
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  return optional_id(tessera_text_token_id(impl_->rust.get(), slice(token)));
}

bool Tokenizer::is_special(int32_t id) const {
  impl_->check_id(id);
  return impl_->is_special(id);
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->vocabulary.vocab_size); }

std::optional<int32_t> Tokenizer::bos_id() const { return optional_id(impl_->vocabulary.bos_id); }

std::optional<int32_t> Tokenizer::eos_id() const { return optional_id(impl_->vocabulary.eos_id); }

std::vector<int32_t> Tokenizer::end_of_turn_ids() const {
  const tessera_text_vocabulary& v = impl_->vocabulary;
  return {v.end_ids, v.end_ids + v.n_end_ids};
}

std::string Tokenizer::bos_token() const {
  const tessera_text_slice token = tessera_text_named_token(impl_->rust.get(), slice("bos_token"));
  return {token.data, token.size};
}

std::string Tokenizer::eos_token() const {
  const tessera_text_slice token = tessera_text_named_token(impl_->rust.get(), slice("eos_token"));
  return {token.data, token.size};
}

const std::string& Tokenizer::origin() const { return impl_->origin; }

}  // namespace tessera
