#include "tessera/artifacts/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tessera/artifacts/half.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

constexpr const char* kWhere = "[gguf.parse]";
constexpr uint64_t kLongestName = 65535;           // of keys, by the format; names of tensors are shorter
constexpr uint64_t kMostArrayElements = 1u << 24;  // bounds memory: elements grow up to 32 times in memory
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kLargestAlignment = 1u << 20;
constexpr uint64_t kSmallestKeyValue = 8 + 4 + 1;        // empty key, type, one byte
constexpr uint64_t kSmallestTensorInfo = 8 + 4 + 4 + 8;  // empty name, no axes, type, offset

struct FormatRow {
  GgufType type;
  const char* name;
  int64_t elements;
  std::size_t bytes;
};

constexpr FormatRow kFormats[] = {
    {GgufType::kF32, "F32", 1, 4},       {GgufType::kF16, "F16", 1, 2},
    {GgufType::kBF16, "BF16", 1, 2},     {GgufType::kQ4_0, "Q4_0", 32, 18},
    {GgufType::kQ4_1, "Q4_1", 32, 20},   {GgufType::kQ5_0, "Q5_0", 32, 22},
    {GgufType::kQ5_1, "Q5_1", 32, 24},   {GgufType::kQ8_0, "Q8_0", 32, 34},
    {GgufType::kQ2_K, "Q2_K", 256, 84},  {GgufType::kQ3_K, "Q3_K", 256, 110},
    {GgufType::kQ4_K, "Q4_K", 256, 144}, {GgufType::kQ5_K, "Q5_K", 256, 176},
    {GgufType::kQ6_K, "Q6_K", 256, 210},
};

const FormatRow* find_format(uint32_t number) {
  for (const FormatRow& row : kFormats) {
    if (static_cast<uint32_t>(row.type) == number) return &row;
  }
  return nullptr;
}

const FormatRow& format_of(GgufType type) {
  const FormatRow* row = find_format(static_cast<uint32_t>(type));
  TESSERA_CHECK(row != nullptr);
  return *row;
}

/// Type numbers of metadata values.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Bytes that one value takes at least (a string: its length field); 0 when the type is unknown.
std::size_t smallest_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool: return 1;
    case ValueType::kU16:
    case ValueType::kI16: return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32: return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
    case ValueType::kString: return 8;
    case ValueType::kArray: return 0;
  }
  return 0;
}

/// Reads forward through the header; every read is checked against the end of the file first.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  T read(const char* what) {
    need(sizeof(T), what);
    const T value = load<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }

  std::string string(const char* what, uint64_t longest) {
    const auto length = read<uint64_t>(what);
    if (length > longest)
      fail_artifact(kWhere, " ", origin_, ": ", what, " of ", length, " bytes; expected at most ", longest);
    need(length, what);
    std::string text(reinterpret_cast<const char*>(bytes_.data() + position_), length);
    position_ += length;
    return text;
  }

 private:
  void need(uint64_t n, const char* what) const {
    if (n > remaining()) {
      fail_artifact(kWhere, " ", origin_, ": the file ends inside ", what, " at byte ", position_,
                    "; expected ", n, " more bytes, got ", remaining(), " (is it truncated?)");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  uint64_t position_ = 0;
};

/// A count that the rest of the file can hold, checked before anything is allocated for it.
uint64_t read_count(Reader& reader, const char* what, uint64_t smallest_item, const std::string& origin) {
  const auto count = reader.read<uint64_t>(what);
  if (count > reader.remaining() / smallest_item) {
    fail_artifact(kWhere, " ", origin, ": ", what, " of ", count, " cannot fit in the ", reader.remaining(),
                  " bytes that follow");
  }
  return count;
}

bool read_bool(Reader& reader, const std::string& at_key) {
  const auto value = reader.read<uint8_t>("a metadata value");
  if (value > 1) fail_artifact(at_key, ": boolean; expected 0 or 1, got ", static_cast<int>(value));
  return value == 1;
}

template <typename Wide, typename Stored>
std::vector<Wide> read_numbers(Reader& reader, uint64_t count) {
  std::vector<Wide> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<Wide>(reader.read<Stored>("a metadata array")));
  return values;
}

GgufValue read_array(Reader& reader, const std::string& at_key) {
  const auto type = static_cast<ValueType>(reader.read<uint32_t>("a metadata array"));
  if (type == ValueType::kArray) fail_artifact(at_key, ": arrays of arrays are not read");
  const std::size_t smallest = smallest_bytes(type);
  if (smallest == 0) fail_artifact(at_key, ": unknown array type ", static_cast<uint32_t>(type));
  const auto count = reader.read<uint64_t>("a metadata array");
  if (count > reader.remaining() / smallest) {
    fail_artifact(at_key, ": ", count, " elements cannot fit in the ", reader.remaining(),
                  " bytes that follow");
  }
  if (count > kMostArrayElements)
    fail_artifact(at_key, ": ", count, " elements; expected at most ", kMostArrayElements);
  switch (type) {
    case ValueType::kU8: return read_numbers<uint64_t, uint8_t>(reader, count);
    case ValueType::kI8: return read_numbers<int64_t, int8_t>(reader, count);
    case ValueType::kU16: return read_numbers<uint64_t, uint16_t>(reader, count);
    case ValueType::kI16: return read_numbers<int64_t, int16_t>(reader, count);
    case ValueType::kU32: return read_numbers<uint64_t, uint32_t>(reader, count);
    case ValueType::kI32: return read_numbers<int64_t, int32_t>(reader, count);
    case ValueType::kU64: return read_numbers<uint64_t, uint64_t>(reader, count);
    case ValueType::kI64: return read_numbers<int64_t, int64_t>(reader, count);
    case ValueType::kF32: return read_numbers<double, float>(reader, count);
    case ValueType::kF64: return read_numbers<double, double>(reader, count);
    case ValueType::kBool: {
      std::vector<bool> values;
      for (uint64_t i = 0; i < count; ++i) values.push_back(read_bool(reader, at_key));
      return values;
    }
    default: break;
  }
  std::vector<std::string> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    strings.push_back(reader.string("a metadata string", reader.remaining()));
  return strings;
}

GgufValue read_value(Reader& reader, const std::string& at_key) {
  constexpr const char* kWhat = "a metadata value";
  const auto type = static_cast<ValueType>(reader.read<uint32_t>(kWhat));
  switch (type) {
    case ValueType::kU8: return static_cast<uint64_t>(reader.read<uint8_t>(kWhat));
    case ValueType::kI8: return static_cast<int64_t>(reader.read<int8_t>(kWhat));
    case ValueType::kU16: return static_cast<uint64_t>(reader.read<uint16_t>(kWhat));
    case ValueType::kI16: return static_cast<int64_t>(reader.read<int16_t>(kWhat));
    case ValueType::kU32: return static_cast<uint64_t>(reader.read<uint32_t>(kWhat));
    case ValueType::kI32: return static_cast<int64_t>(reader.read<int32_t>(kWhat));
    case ValueType::kU64: return reader.read<uint64_t>(kWhat);
    case ValueType::kI64: return reader.read<int64_t>(kWhat);
    case ValueType::kF32: return static_cast<double>(reader.read<float>(kWhat));
    case ValueType::kF64: return reader.read<double>(kWhat);
    case ValueType::kBool: return read_bool(reader, at_key);
    case ValueType::kString: return reader.string("a metadata string", reader.remaining());
    case ValueType::kArray: return read_array(reader, at_key);
  }
  fail_artifact(at_key, ": unknown metadata type ", static_cast<uint32_t>(type));
}

/// A row of the tensor table, before its bytes are looked up.
struct TensorInfo {
  GgufTensor tensor;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// The start of every message about one tensor.
std::string at_tensor(const std::string& origin, const std::string& name) {
  return base::concat(kWhere, " ", origin, ": tensor ", in_quotes(name));
}

/// Bytes of a tensor in its format. Throws when a row is no multiple of the block or on overflow.
uint64_t tensor_bytes(const GgufTensor& tensor, const std::string& at) {
  const FormatRow& format = format_of(tensor.type);
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % format.elements != 0) {
    fail_artifact(at, ": rows of ", row, " elements; expected a multiple of ", format.elements, " for ",
                  format.name);
  }
  auto bytes = static_cast<uint64_t>(row / format.elements) * format.bytes;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    const auto extent = static_cast<uint64_t>(tensor.shape[i]);
    if (bytes > std::numeric_limits<uint64_t>::max() / extent)
      fail_artifact(at, ": the size of its shape overflows");
    bytes *= extent;
  }
  return bytes;
}

TensorInfo read_tensor_info(Reader& reader, const std::string& origin) {
  constexpr const char* kWhat = "the tensor table";
  TensorInfo info;
  info.tensor.name = reader.string("a tensor name", kLongestName);
  const std::string at = at_tensor(origin, info.tensor.name);
  const auto n_axes = reader.read<uint32_t>(kWhat);
  if (n_axes > 4) fail_artifact(at, " has ", n_axes, " axes; expected at most 4");
  for (uint32_t i = 0; i < n_axes; ++i) {
    const auto extent = reader.read<uint64_t>(kWhat);
    // Arrays are indexed with 32-bit extents further up; nothing real has an empty axis.
    if (extent == 0 || extent > std::numeric_limits<int32_t>::max()) {
      fail_artifact(at, ": axis of ", extent, " elements; expected 1 to 2147483647");
    }
    info.tensor.shape.push_back(static_cast<int64_t>(extent));
  }
  std::reverse(info.tensor.shape.begin(), info.tensor.shape.end());  // the file has the fastest axis first
  const auto number = reader.read<uint32_t>(kWhat);
  info.offset = reader.read<uint64_t>(kWhat);
  const FormatRow* format = find_format(number);
  if (format == nullptr) {
    base::fail_unsupported(at, " is stored in format number ", number,
                           ", which Tessera does not read; expected F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                           "Q8_0 or Q2_K to Q6_K");
  }
  info.tensor.type = format->type;
  info.bytes = tensor_bytes(info.tensor, at);
  return info;
}

/// Tensors must follow each other with no more than padding between and behind them: bytes that belong
/// to no tensor mean that the table does not describe this data.
void check_layout(const std::vector<TensorInfo>& infos, uint64_t available, uint64_t alignment,
                  const std::string& origin) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& info : infos) order.push_back(&info);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  uint64_t end = 0;       // of the tensor before
  uint64_t expected = 0;  // the next offset
  for (std::size_t i = 0; i < order.size(); ++i) {
    const TensorInfo& info = *order[i];
    const std::string at = at_tensor(origin, info.tensor.name);
    if (info.offset < end) fail_artifact(at, " overlaps tensor ", in_quotes(order[i - 1]->tensor.name));
    if (info.offset != expected) {
      fail_artifact(at, ": offset ", info.offset, "; expected ", expected,
                    i == 0 ? ", where the data begins" : ", where the tensor before it ends");
    }
    end = info.offset + info.bytes;  // within the file, so far below 2^64
    expected = (end + alignment - 1) / alignment * alignment;
  }
  if (available > expected) {
    fail_artifact(kWhere, " ", origin, ": ", available - end,
                  " bytes follow the last tensor; expected at most ", expected - end, " of padding");
  }
}

/// Gives every tensor its bytes. `start` is where the data begins in the file.
void place_tensors(std::vector<TensorInfo>& infos, std::span<const std::byte> bytes, uint64_t start,
                   uint64_t alignment, const std::string& origin) {
  const uint64_t available = start <= bytes.size() ? bytes.size() - start : 0;
  for (TensorInfo& info : infos) {
    const std::string at = at_tensor(origin, info.tensor.name);
    if (info.offset % alignment != 0)
      fail_artifact(at, ": offset ", info.offset, "; expected a multiple of ", alignment);
    if (info.offset > available || info.bytes > available - info.offset) {
      fail_artifact(at, ": ", info.bytes, " bytes at offset ", info.offset,
                    " leave the file; expected within ", available,
                    " bytes of data (is the file truncated?)");
    }
    info.tensor.data = bytes.subspan(start + info.offset, info.bytes);
  }
  check_layout(infos, available, alignment, origin);
}

/// Magic and version.
void read_preamble(Reader& reader, const std::string& origin) {
  constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
  if (reader.read<uint32_t>("the magic number") != kMagic) {
    fail_artifact(kWhere, " ", origin, ": not a GGUF file; expected it to begin with \"GGUF\"");
  }
  const auto version = reader.read<uint32_t>("the version");
  if (version != 2 && version != 3) {
    fail_artifact(kWhere, " ", origin, ": version ", version, "; expected 2 or 3, little endian");
  }
}

uint64_t read_alignment(const GgufFile& file) {
  const std::optional<int64_t> stated = file.integer("general.alignment");
  if (!stated) return kDefaultAlignment;
  const auto alignment = static_cast<uint64_t>(*stated);
  if (*stated < 8 || alignment > kLargestAlignment || !std::has_single_bit(alignment)) {
    fail_artifact(kWhere, " ", file.origin(), ": general.alignment; expected a power of two from 8 to ",
                  kLargestAlignment, ", got ", *stated);
  }
  return alignment;
}

}  // namespace

const char* gguf_type_name(GgufType type) { return format_of(type).name; }
int64_t gguf_block_elements(GgufType type) { return format_of(type).elements; }
std::size_t gguf_block_bytes(GgufType type) { return format_of(type).bytes; }

GgufFile GgufFile::parse(std::span<const std::byte> bytes, const std::string& origin) {
  GgufFile file;
  file.origin_ = origin;
  Reader reader(bytes, origin);
  read_preamble(reader, origin);
  // Both counts are checked against what follows the first; the key-value loop re-checks its reads.
  const uint64_t n_tensors = read_count(reader, "tensor count", kSmallestTensorInfo, origin);
  const uint64_t n_keys = read_count(reader, "metadata count", kSmallestKeyValue, origin);
  for (uint64_t i = 0; i < n_keys; ++i) {
    std::string key = reader.string("a metadata key", kLongestName);
    const std::string at_key = base::concat(kWhere, " ", origin, ": key ", in_quotes(key));
    if (file.metadata_.contains(key)) fail_artifact(at_key, " appears twice");
    GgufValue value = read_value(reader, at_key);
    file.metadata_.emplace(std::move(key), std::move(value));
  }
  const uint64_t alignment = read_alignment(file);
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < n_tensors; ++i) infos.push_back(read_tensor_info(reader, origin));
  const uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  place_tensors(infos, bytes, start, alignment, origin);
  for (TensorInfo& info : infos) {
    const std::string name = info.tensor.name;
    if (!file.tensors_.emplace(name, std::move(info.tensor)).second) {
      fail_artifact(at_tensor(origin, name), " appears twice");
    }
  }
  return file;
}

}  // namespace tessera::artifacts
