#include "tessera/artifacts/safetensors.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tessera/artifacts/half.h"
#include "tessera/artifacts/json_reader.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;
using nlohmann::json;

constexpr const char* kWhere = "[safetensors.parse]";
constexpr std::size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation

struct TypeRow {
  const char* name;
  ElementType type;
  std::size_t bytes;
};

constexpr TypeRow kTypes[] = {
    {"BOOL", ElementType::kBool, 1}, {"U8", ElementType::kU8, 1},   {"I8", ElementType::kI8, 1},
    {"U16", ElementType::kU16, 2},   {"I16", ElementType::kI16, 2}, {"F16", ElementType::kF16, 2},
    {"BF16", ElementType::kBF16, 2}, {"U32", ElementType::kU32, 4}, {"I32", ElementType::kI32, 4},
    {"F32", ElementType::kF32, 4},   {"U64", ElementType::kU64, 8}, {"I64", ElementType::kI64, 8},
    {"F64", ElementType::kF64, 8},
};

/// Types of the format that Tessera does not compute with.
constexpr const char* kForeignTypes[] = {"F4",      "F6_E2M3",     "F6_E3M2",     "F8_E4M3", "F8_E5M2",
                                         "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};

const TypeRow& row_of(ElementType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row;
  }
  base::check_failed("element type is listed", __FILE__, __LINE__);
}

/// The start of every message about one tensor.
std::string at(const std::string& origin, const std::string& name) {
  return base::concat(kWhere, " ", origin, ": tensor ", in_quotes(name));
}

const json& field(const json& entry, const char* key, const std::string& at_tensor) {
  const auto found = entry.find(key);
  if (found == entry.end()) fail_artifact(at_tensor, " has no ", key);
  return *found;
}

ElementType read_type(const json& value, const std::string& at_tensor) {
  if (!value.is_string()) fail_artifact(at_tensor, ": dtype; expected a string, got ", value.type_name());
  const std::string& name = value.get_ref<const std::string&>();
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  for (const char* foreign : kForeignTypes) {
    if (name == foreign)
      base::fail_unsupported(at_tensor, " has dtype ", name, ", which Tessera does not read");
  }
  fail_artifact(at_tensor, ": unknown dtype ", in_quotes(name));
}

/// A non-negative integer of the header.
uint64_t read_count(const json& value, const char* what, const std::string& at_tensor) {
  if (!value.is_number_unsigned()) {
    fail_artifact(at_tensor, ": ", what, "; expected a non-negative integer, got ",
                  value.is_number() ? "another number" : value.type_name());
  }
  return value.get<uint64_t>();
}

std::vector<int64_t> read_shape(const json& value, const std::string& at_tensor) {
  if (!value.is_array()) fail_artifact(at_tensor, ": shape; expected an array, got ", value.type_name());
  constexpr std::size_t kMostAxes = 32;
  if (value.size() > kMostAxes)
    fail_artifact(at_tensor, ": shape has ", value.size(), " axes; expected at most ", kMostAxes);
  std::vector<int64_t> shape;
  for (const json& axis : value) {
    const uint64_t extent = read_count(axis, "shape", at_tensor);
    // Arrays are indexed with 32-bit extents further up.
    if (extent > std::numeric_limits<int32_t>::max())
      fail_artifact(at_tensor, ": axis of ", extent, " is too long");
    shape.push_back(static_cast<int64_t>(extent));
  }
  return shape;
}

/// Bytes of a tensor, or absent when the product overflows.
std::optional<uint64_t> size_in_bytes(const std::vector<int64_t>& shape, ElementType type) {
  uint64_t bytes = element_bytes(type);
  for (const int64_t extent : shape) {
    const auto factor = static_cast<uint64_t>(extent);
    if (factor != 0 && bytes > std::numeric_limits<uint64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

SafetensorsEntry read_entry(const std::string& name, const json& value, std::span<const std::byte> data,
                            const std::string& origin) {
  const std::string at_tensor = at(origin, name);
  if (!value.is_object()) fail_artifact(at_tensor, "; expected an object, got ", value.type_name());
  SafetensorsEntry entry;
  entry.name = name;
  entry.type = read_type(field(value, "dtype", at_tensor), at_tensor);
  entry.shape = read_shape(field(value, "shape", at_tensor), at_tensor);
  const json& offsets = field(value, "data_offsets", at_tensor);
  if (!offsets.is_array() || offsets.size() != 2)
    fail_artifact(at_tensor, ": data_offsets; expected [begin, end]");
  const uint64_t begin = read_count(offsets[0], "data_offsets", at_tensor);
  const uint64_t end = read_count(offsets[1], "data_offsets", at_tensor);
  if (begin > end || end > data.size()) {
    fail_artifact(at_tensor, ": bytes [", begin, ", ", end, ") leave the file; expected within ", data.size(),
                  " bytes of data (is the file truncated?)");
  }
  const std::optional<uint64_t> expected = size_in_bytes(entry.shape, entry.type);
  if (!expected) fail_artifact(at_tensor, ": the size of its shape overflows");
  if (*expected != end - begin) {
    fail_artifact(at_tensor, ": dtype and shape need ", *expected, " bytes, got ", end - begin);
  }
  entry.data = data.subspan(begin, end - begin);
  return entry;
}

void read_metadata(const json& value, SafetensorsFile& file, const std::string& origin) {
  if (!value.is_object())
    fail_artifact(kWhere, " ", origin, ": __metadata__; expected an object, got ", value.type_name());
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail_artifact(kWhere, " ", origin, ": __metadata__ ", in_quotes(key), "; expected a string, got ",
                    text.type_name());
    file.metadata.emplace(key, text.get<std::string>());
  }
}

/// The tensors must tile the data exactly: no overlap, no gap, nothing left over. Anything else is
/// a truncated or tampered file, and hidden bytes are a way to smuggle a second payload.
void check_tiling(const SafetensorsFile& file, std::span<const std::byte> data, const std::string& origin) {
  std::vector<const SafetensorsEntry*> order;
  for (const auto& [name, entry] : file.tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
  });
  std::size_t position = 0;
  for (const SafetensorsEntry* entry : order) {
    const auto begin = static_cast<std::size_t>(entry->data.data() - data.data());
    if (begin < position)
      fail_artifact(at(origin, entry->name), " overlaps another tensor at byte ", begin, " of the data");
    if (begin > position)
      fail_artifact(at(origin, entry->name), " leaves ", begin - position, " unused bytes before it");
    position = begin + entry->data.size();
  }
  if (position != data.size())
    fail_artifact(kWhere, " ", origin, ": ", data.size() - position, " bytes belong to no tensor");
}

bool is_plain_file_name(const std::string& name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 0x20;
  });
}

}  // namespace

std::size_t element_bytes(ElementType type) { return row_of(type).bytes; }

const char* element_type_name(ElementType type) { return row_of(type).name; }

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& origin) {
  if (bytes.size() < kLengthBytes) {
    fail_artifact(kWhere, " ", origin, ": too short; expected at least 8 bytes, got ", bytes.size());
  }
  const auto length = load<uint64_t>(bytes.data());
  if (length > kLongestHeader) {
    fail_artifact(kWhere, " ", origin, ": header of ", length, " bytes; expected at most ", kLongestHeader);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail_artifact(kWhere, " ", origin, ": header of ", length, " bytes; the file holds only ",
                  bytes.size() - kLengthBytes, " (is it truncated?)");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{')
    fail_artifact(kWhere, " ", origin, ": the header does not begin with '{'");
  const json header = read_json(text, kWhere, origin, DuplicateKeys::kRefuse);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);

  SafetensorsFile file;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      read_metadata(value, file, origin);
    } else {
      file.tensors.emplace(name, read_entry(name, value, data, origin));
    }
  }
  check_tiling(file, data, origin);
  return file;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text, const std::string& origin) {
  constexpr const char* kIndex = "[safetensors.parse_index]";
  const json index = read_json(text, kIndex, origin, DuplicateKeys::kRefuse);
  if (!index.is_object()) fail_artifact(kIndex, " ", origin, "; expected an object, got ", index.type_name());
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object())
    fail_artifact(kIndex, " ", origin, ": weight_map; expected an object");
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : found->items()) {
    if (!shard.is_string())
      fail_artifact(kIndex, " ", origin, ": weight_map ", in_quotes(name), "; expected a string");
    const std::string& file_name = shard.get_ref<const std::string&>();
    if (!is_plain_file_name(file_name)) {
      fail_artifact(kIndex, " ", origin, ": weight_map ", in_quotes(name),
                    "; expected a plain file name, got ", in_quotes(file_name));
    }
    shards.emplace(name, file_name);
  }
  return shards;
}

}  // namespace tessera::artifacts
