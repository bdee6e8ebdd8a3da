// Small safetensors and GGUF files built in memory, well-formed unless a test breaks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::testing {

using Bytes = std::vector<std::byte>;

inline void append_raw(Bytes& out, const void* from, std::size_t n) {
  const std::size_t at = out.size();
  out.resize(at + n);
  if (n != 0) std::memcpy(out.data() + at, from, n);
}

template <typename T>
void append(Bytes& out, T value) {
  append_raw(out, &value, sizeof(T));
}

inline void append_text(Bytes& out, std::string_view text) { append_raw(out, text.data(), text.size()); }
inline void append_bytes(Bytes& out, const Bytes& bytes) { append_raw(out, bytes.data(), bytes.size()); }

/// `n` bytes from a fixed seed.
inline Bytes random_bytes(std::size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 0xffu);
  return out;
}

/// A safetensors file of this header and `data_bytes` bytes of data counting up from 0.
inline Bytes safetensors(std::string_view header, std::size_t data_bytes) {
  Bytes out;
  append<uint64_t>(out, header.size());
  append_text(out, header);
  for (std::size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<std::byte>(i & 0xff));
  return out;
}

/// Writes GGUF files. Metadata values are appended raw, so that tests can write wrong ones.
class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3) : version_(version) {}

  static void append_string(Bytes& out, std::string_view text) {
    append<uint64_t>(out, text.size());
    append_text(out, text);
  }

  /// A key whose value follows in `value`, beginning with its type number.
  GgufBuilder& raw(std::string_view key, const Bytes& value) {
    append_string(metadata_, key);
    append_bytes(metadata_, value);
    ++n_keys_;
    return *this;
  }

  template <typename T>
  GgufBuilder& scalar(std::string_view key, uint32_t type, T value) {
    Bytes bytes;
    append<uint32_t>(bytes, type);
    append<T>(bytes, value);
    return raw(key, bytes);
  }

  GgufBuilder& u32(std::string_view key, uint32_t value) { return scalar(key, 4, value); }
  GgufBuilder& i32(std::string_view key, int32_t value) { return scalar(key, 5, value); }
  GgufBuilder& f32(std::string_view key, float value) { return scalar(key, 6, value); }
  GgufBuilder& boolean(std::string_view key, bool value) { return scalar<uint8_t>(key, 7, value ? 1 : 0); }

  GgufBuilder& string(std::string_view key, std::string_view value) {
    Bytes bytes;
    append<uint32_t>(bytes, 8);
    append_string(bytes, value);
    return raw(key, bytes);
  }

  template <typename T>
  GgufBuilder& array(std::string_view key, uint32_t type, const std::vector<T>& values) {
    Bytes bytes;
    append<uint32_t>(bytes, 9);
    append<uint32_t>(bytes, type);
    append<uint64_t>(bytes, values.size());
    for (const T& value : values) append<T>(bytes, value);
    return raw(key, bytes);
  }

  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    Bytes bytes;
    append<uint32_t>(bytes, 9);
    append<uint32_t>(bytes, 8);
    append<uint64_t>(bytes, values.size());
    for (const std::string& value : values) append_string(bytes, value);
    return raw(key, bytes);
  }

  /// A tensor at the next aligned offset. `axes` in the file's order, fastest first.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& axes, uint32_t type,
                      const Bytes& bytes) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    tensor_at(name, axes, type, data_.size());
    append_bytes(data_, bytes);
    return *this;
  }

  /// Only the entry of the tensor table.
  GgufBuilder& tensor_at(std::string_view name, const std::vector<uint64_t>& axes, uint32_t type,
                         uint64_t offset) {
    append_string(table_, name);
    append<uint32_t>(table_, static_cast<uint32_t>(axes.size()));
    for (const uint64_t axis : axes) append<uint64_t>(table_, axis);
    append<uint32_t>(table_, type);
    append<uint64_t>(table_, offset);
    ++n_tensors_;
    return *this;
  }

  /// Alignment of later tensors and of the data; also written as general.alignment.
  GgufBuilder& alignment(uint32_t value) {
    alignment_ = value;
    return u32("general.alignment", value);
  }

  Bytes build() const {
    Bytes out;
    append_text(out, "GGUF");
    append<uint32_t>(out, version_);
    append<uint64_t>(out, n_tensors_);
    append<uint64_t>(out, n_keys_);
    append_bytes(out, metadata_);
    append_bytes(out, table_);
    out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_);
    append_bytes(out, data_);
    return out;
  }

 private:
  uint32_t version_;
  std::size_t alignment_ = 32;
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
  Bytes metadata_;
  Bytes table_;
  Bytes data_;
};

/// A complete tiny model of architecture "llama" with a vocabulary of four tokens.
inline GgufBuilder tiny_gguf_model() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.embedding_length", 64)
      .u32("llama.feed_forward_length", 96)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .u32("llama.context_length", 128)
      .f32("llama.rope.freq_base", 100000.0f)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"<s>", "a", "b", "ab"})
      .array<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1, 1})
      .array<float>("tokenizer.ggml.scores", 6, {0.0f, -1.0f, -2.0f, -3.0f})
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.bos_token_id", 0)
      .u32("tokenizer.ggml.eos_token_id", 3)
      .boolean("tokenizer.ggml.add_bos_token", false)
      .string("tokenizer.chat_template", "{{ messages }}")
      .tensor("token_embd.weight", {64, 4}, 0, Bytes(64 * 4 * 4))
      .tensor("blk.0.attn_norm.weight", {64}, 0, Bytes(64 * 4))
      .tensor("blk.0.attn_q.weight", {64, 64}, 2, Bytes(64 * 64 / 32 * 18));
  return builder;
}

}  // namespace tessera::testing
