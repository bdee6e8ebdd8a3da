// Checkpoints in Hugging Face or MLX layout.
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "tessera/artifacts/stored_tensors.h"
#include "tessera/base/check.h"
#include "tessera/tensor/allocate.h"
#include "tessera/tensor/shape.h"

namespace tessera::artifacts {
namespace {

namespace mx = mlx::core;

mx::Dtype dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kBool: return mx::bool_;
    case ElementType::kU8: return mx::uint8;
    case ElementType::kI8: return mx::int8;
    case ElementType::kU16: return mx::uint16;
    case ElementType::kI16: return mx::int16;
    case ElementType::kF16: return mx::float16;
    case ElementType::kBF16: return mx::bfloat16;
    case ElementType::kU32: return mx::uint32;
    case ElementType::kI32: return mx::int32;
    case ElementType::kF32: return mx::float32;
    case ElementType::kU64: return mx::uint64;
    case ElementType::kI64: return mx::int64;
    case ElementType::kF64: return mx::float64;
  }
  return mx::float32;
}

/// A tensor of one shard and the map that holds its bytes.
struct Stored {
  SafetensorsEntry entry;
  std::shared_ptr<const base::MappedFile> file;
};

std::string describe(const QuantizationSpec& spec) {
  return base::concat(spec.mode, " ", spec.bits, "-bit g", spec.group_size);
}

class SafetensorsCheckpoint final : public StoredTensors<Stored> {
 public:
  SafetensorsCheckpoint(ModelConfig config, std::string origin, Tensors tensors)
      : StoredTensors(std::move(config), std::move(origin), std::move(tensors)) {}

  mx::array dense(std::string_view name, mx::Dtype dtype) const override {
    const Stored& stored = find(name);
    if (!mx::issubdtype(dtype_of(stored.entry.type), mx::floating)) {
      base::fail_artifact("[artifacts.checkpoint] ", stored.file->path().string(), ": tensor ", name, " is ",
                          element_type_name(stored.entry.type), "; expected a floating-point type");
    }
    mx::array values = as_stored(stored);
    if (values.dtype() == dtype) return values;
    mx::array converted = mx::astype(values, dtype);
    mx::eval(converted);
    stored.file->release(stored.entry.data);
    return converted;
  }

  tensor::Weight weight(const std::string& path) const override {
    const std::string name = path + ".weight";
    if (!contains(path + ".scales")) {
      const Stored& stored = find(name);
      if (stored.entry.shape.size() != 2) {
        base::fail_artifact("[artifacts.checkpoint] ", stored.file->path().string(), ": tensor ", name,
                            " has ", stored.entry.shape.size(), " axes; expected a matrix");
      }
      return dense(name, dtype_of(stored.entry.type));
    }
    const QuantizationSpec spec = spec_of(path);
    std::optional<mx::array> biases;
    if (contains(path + ".biases")) biases = as_stored(find(path + ".biases"));
    tensor::QuantizedTensor quantized{as_stored(find(name)),
                                      as_stored(find(path + ".scales")),
                                      biases,
                                      spec.group_size,
                                      spec.bits,
                                      spec.mode};
    try {
      tensor::validate(quantized, "artifacts.checkpoint");
    } catch (const Error& error) {
      base::fail_artifact("[artifacts.checkpoint] ", origin(), ": tensor ", name, " (", describe(spec),
                          " by config.json): ", error.what());
    }
    return quantized;
  }

  std::vector<TensorReport> report(mx::Dtype dtype) const override {
    std::vector<TensorReport> reports;
    for (const auto& [name, stored] : tensors_) {
      const std::string_view view(name);
      if (view.ends_with(".scales") || view.ends_with(".biases")) continue;
      const std::string path = reported_name(view);
      reports.push_back(contains(path + ".scales") ? report_quantized(path, stored)
                                                   : report_dense(path, stored, dtype));
    }
    return reports;
  }

 private:
  QuantizationSpec spec_of(const std::string& path) const {
    const auto spec = config().quantization.spec(path);
    if (!spec) {
      base::fail_artifact("[artifacts.checkpoint] ", origin(), ": ", path,
                          " has scales, but config.json says it is not quantized");
    }
    return *spec;
  }

  /// The file's bytes in place where they are aligned, else a copy.
  static mx::array as_stored(const Stored& stored) {
    const mx::Dtype dtype = dtype_of(stored.entry.type);
    mx::Shape shape;
    for (const int64_t size : stored.entry.shape) shape.push_back(static_cast<int>(size));
    const std::byte* data = stored.entry.data.data();
    if (!stored.entry.data.empty() && reinterpret_cast<std::uintptr_t>(data) % dtype.size() == 0) {
      return in_place(stored.entry.data, std::move(shape), dtype, stored.file);
    }
    mx::allocator::Data copy = tensor::allocate(stored.entry.data.size());
    std::memcpy(copy.buffer().raw_ptr(), data, stored.entry.data.size());
    return mx::array(std::move(copy), std::move(shape), dtype);
  }

  TensorReport report_quantized(const std::string& path, const Stored& codes) const {
    const auto spec = config().quantization.spec(path);
    TensorReport report{.name = path};
    report.stored_as = spec ? describe(*spec) : "quantized (not in config.json)";
    report.loaded_as = report.stored_as;
    report.elements = codes.entry.data.size() * 8 / static_cast<uint64_t>(spec ? spec->bits : 8);
    for (const char* part : {".weight", ".scales", ".biases"}) {
      const auto found = tensors_.find(path + part);
      if (found != tensors_.end()) report.stored_bytes += found->second.entry.data.size();
    }
    report.loaded_bytes = report.stored_bytes;
    return report;
  }

  static TensorReport report_dense(const std::string& path, const Stored& stored, mx::Dtype dtype) {
    TensorReport report{.name = path, .stored_as = element_type_name(stored.entry.type)};
    report.elements = stored.entry.data.size() / element_bytes(stored.entry.type);
    report.stored_bytes = stored.entry.data.size();
    const mx::Dtype loaded = stored.entry.shape.size() == 2 ? dtype_of(stored.entry.type) : dtype;
    report.loaded_as = tensor::to_string(loaded);
    report.loaded_bytes = report.elements * loaded.size();
    return report;
  }
};

/// Every tensor of a sharded model must lie where the index says, and nowhere else.
void check_index(const ModelFiles& files, const std::map<std::string, Stored, std::less<>>& tensors) {
  const auto index =
      parse_safetensors_index(base::read_file(files.index, 256ULL << 20), files.index.string());
  for (const auto& [name, stored] : tensors) {
    if (!index.contains(name)) {
      base::fail_artifact("[artifacts.checkpoint] ", files.index.string(), ": tensor ", name, " of ",
                          stored.file->path().filename().string(), " is missing");
    }
  }
  for (const auto& [name, shard] : index) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.file->path().filename() != shard) {
      base::fail_artifact("[artifacts.checkpoint] ", files.index.string(), ": tensor ", name, " is not in ",
                          shard);
    }
  }
}

}  // namespace

std::shared_ptr<const Checkpoint> open_safetensors(const ModelFiles& files) {
  const std::string origin = files.folder.string();
  ModelConfig config = parse_model_config(
      base::read_file(files.folder / "config.json", 64ULL << 20),
      base::read_optional_file(files.folder / "generation_config.json", 64ULL << 20).value_or(""), origin);
  std::map<std::string, Stored, std::less<>> tensors;
  for (const std::filesystem::path& path : files.safetensors) {
    auto file = base::MappedFile::open(path);
    for (auto& [name, entry] : parse_safetensors(file->bytes(), path.string()).tensors) {
      if (!tensors.emplace(name, Stored{std::move(entry), file}).second) {
        base::fail_artifact("[artifacts.checkpoint] ", path.string(), ": tensor ", name, " is in two shards");
      }
    }
  }
  if (!files.index.empty()) check_index(files, tensors);
  return std::make_shared<SafetensorsCheckpoint>(std::move(config), origin, std::move(tensors));
}

}  // namespace tessera::artifacts
