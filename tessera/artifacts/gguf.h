// The GGUF container (versions 2 and 3, little endian): metadata, tensor table, aligned data.
// Parsing validates the whole header and every tensor's range before any tensor is touched.
// Format: ggml's docs/gguf.md (read as documentation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::artifacts {

/// Tensor formats of GGUF files that Tessera reads; the numbers are the file's own.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

const char* gguf_type_name(GgufType type);
int64_t gguf_block_elements(GgufType type);   // elements of one block (1 for dense types)
std::size_t gguf_block_bytes(GgufType type);  // bytes of one block

struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<int64_t> shape;       // row-major, as NumPy and MLX have it: [out, in]
  std::span<const std::byte> data;  // inside the file's bytes, aligned to 8 bytes or more in them
};

/// A metadata value. Numbers keep their width class; arrays are homogeneous.
using GgufValue =
    std::variant<bool, uint64_t, int64_t, double, std::string, std::vector<bool>, std::vector<uint64_t>,
                 std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;

/// One parsed GGUF file, or several parts of a split model merged. Points into the files' bytes.
class GgufFile {
 public:
  /// Parses and validates a whole file held in `bytes`; `origin` names it in messages.
  /// Throws InvalidArtifact naming `origin` and the key or tensor on: wrong magic or version, any
  /// length beyond the file, unknown metadata type, nested arrays, duplicate keys or tensor names,
  /// bad alignment, more than 4 axes, an axis of 0 or above 2^31 - 1, a row that is no multiple of the block, size overflow, a
  /// range outside the file, overlapping tensors, bytes between or behind them that are more than
  /// padding. Throws Unsupported naming the tensor and its type
  /// number for a format outside GgufType.
  static GgufFile parse(std::span<const std::byte> bytes, const std::string& origin);

  /// Adds the tensors of another part of a split model (`split.count`, `split.no`).
  /// Throws InvalidArtifact on a duplicate tensor or parts that do not belong together.
  void merge(GgufFile part);

  /// Throws InvalidArtifact when parts of a split model have not been merged yet, or when the parts
  /// together do not hold the number of tensors the first one states.
  void check_complete() const;

  const std::string& origin() const { return origin_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  /// Typed access; absent when the key is missing. Throws InvalidArtifact naming the key when it
  /// has another type (an unsigned value is accepted as signed where it fits, and vice versa).
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  const std::vector<std::string>* strings(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;

 private:
  std::string origin_;
  std::set<int64_t> merged_parts_;  // split.no of every part, once one has been merged
  std::map<std::string, GgufTensor, std::less<>> tensors_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
};

}  // namespace tessera::artifacts
