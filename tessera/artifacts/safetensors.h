// The safetensors container: an 8-byte length, a JSON header, then the tensors' bytes.
// Parsing only looks at the header; it validates all of it before any tensor is touched.
// Format: https://huggingface.co/docs/safetensors (read as documentation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::artifacts {

/// Element types of safetensors files that Tessera reads.
enum class ElementType { kBool, kU8, kI8, kU16, kI16, kF16, kBF16, kU32, kI32, kF32, kU64, kI64, kF64 };

std::size_t element_bytes(ElementType type);
const char* element_type_name(ElementType type);  // "F16", "U32", ... as in the file

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;       // [] is a scalar
  std::span<const std::byte> data;  // inside the file's bytes; may be unaligned for its type
};

struct SafetensorsFile {
  std::map<std::string, SafetensorsEntry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;  // `__metadata__`
};

/// Parses and validates the header of a whole file held in `bytes` (which the result points into).
/// Throws InvalidArtifact naming `origin` and the tensor when: the file is shorter than its header
/// says, the header is not JSON of the expected form, a dtype is unknown, dtype x shape differs from
/// the byte range, a range leaves the file, two ranges overlap, bytes are left over or unused
/// between tensors, a size overflows, an axis exceeds 2^31 - 1, or a name appears twice.
/// Throws Unsupported naming the tensor for a dtype of the format outside ElementType (8-bit floats).
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& origin);

/// Parses model.safetensors.index.json: tensor name -> shard file name.
/// Throws InvalidArtifact on a wrong form or a shard name that is not a plain file name.
std::map<std::string, std::string> parse_safetensors_index(std::string_view json, const std::string& origin);

}  // namespace tessera::artifacts
