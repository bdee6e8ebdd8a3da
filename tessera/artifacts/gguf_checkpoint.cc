// Checkpoints in GGUF files: names translated, row orders undone, blocks turned into affine groups.
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/artifacts/gguf_blocks.h"
#include "tessera/artifacts/stored_tensors.h"
#include "tessera/artifacts/weight_names.h"
#include "tessera/base/check.h"
#include "tessera/tensor/allocate.h"
#include "tessera/tensor/shape.h"

namespace tessera::artifacts {
namespace {

namespace mx = mlx::core;

bool is_dense(GgufType type) {
  return type == GgufType::kF32 || type == GgufType::kF16 || type == GgufType::kBF16;
}

mx::Dtype dense_dtype(GgufType type) {
  return type == GgufType::kF32 ? mx::float32 : type == GgufType::kF16 ? mx::float16 : mx::bfloat16;
}

mx::Shape shape_of(const GgufTensor& tensor) {
  mx::Shape shape;
  for (const int64_t size : tensor.shape) shape.push_back(static_cast<int>(size));
  return shape;
}

uint64_t elements_of(const GgufTensor& tensor) {
  return tensor.data.size() / gguf_block_bytes(tensor.type) *
         static_cast<uint64_t>(gguf_block_elements(tensor.type));
}

/// An array that `fill` writes before anyone sees it.
template <typename T, typename Fill>
mx::array filled(mx::Shape shape, mx::Dtype dtype, std::size_t elements, const Fill& fill) {
  mx::allocator::Data data = tensor::allocate(elements * dtype.size());
  fill(std::span<T>(static_cast<T*>(data.buffer().raw_ptr()), elements * dtype.size() / sizeof(T)));
  return mx::array(std::move(data), std::move(shape), dtype);
}

struct Stored {
  const GgufTensor* tensor;
  std::shared_ptr<const base::MappedFile> file;
};

class GgufCheckpoint final : public StoredTensors<Stored> {
 public:
  GgufCheckpoint(ModelConfig config, GgufFile file, std::vector<std::shared_ptr<const base::MappedFile>> maps,
                 std::shared_ptr<base::ThreadPool> pool)
      : StoredTensors(std::move(config), file.origin()), file_(std::move(file)), pool_(std::move(pool)) {
    const NormPlacement norms = norm_placement(file_);
    has_interleaved_rows_ = has_interleaved_rope_rows(file_.string("general.architecture").value_or(""));
    for (const auto& [name, tensor] : file_.tensors()) {
      // A tensor without a translation keeps its name, so that the model can name what it cannot place.
      tensors_.emplace(canonical_name(name, norms).value_or(name), Stored{&tensor, map_of(tensor, maps)});
    }
  }

  mx::array dense(std::string_view name, mx::Dtype dtype) const override {
    const Stored& stored = find(name);
    const mx::array values = reorder_rows(values_of(stored), stored);
    const bool is_in_place = is_dense(stored.tensor->type) && !is_rope(stored);
    if (values.dtype() == dtype && is_in_place) return values;
    mx::array converted = mx::contiguous(mx::astype(values, dtype));
    mx::eval(converted);
    stored.file->release(stored.tensor->data);
    return converted;
  }

  tensor::Weight weight(const std::string& path) const override {
    const std::string name = path + ".weight";
    const Stored& stored = find(name);
    if (stored.tensor->shape.size() != 2) {
      base::fail_artifact("[artifacts.checkpoint] ", origin(), ": tensor ", stored.tensor->name, " has ",
                          stored.tensor->shape.size(), " axes; expected a matrix");
    }
    const GgufType type = stored.tensor->type;
    if (!affine_form(type)) return dense(name, is_dense(type) ? dense_dtype(type) : mx::float32);
    tensor::QuantizedTensor quantized = [&] {
      try {
        return repack(*stored.tensor);
      } catch (const Error& error) {
        throw Error(error.kind(), base::concat("[artifacts.checkpoint] ", origin(), ": tensor ",
                                               stored.tensor->name, ": ", error.what()));
      }
    }();
    if (is_rope(stored)) {
      quantized.w = reorder_rows(quantized.w, stored);
      quantized.scales = reorder_rows(quantized.scales, stored);
      quantized.biases = reorder_rows(*quantized.biases, stored);
      mx::eval(quantized.w, quantized.scales, *quantized.biases);
    }
    stored.file->release(stored.tensor->data);
    return quantized;
  }

  std::vector<TensorReport> report(mx::Dtype dtype) const override {
    std::vector<TensorReport> reports;
    for (const auto& [name, stored] : tensors_) {
      TensorReport report{.name = reported_name(name)};
      const GgufType type = stored.tensor->type;
      report.stored_as = gguf_type_name(type);
      report.elements = elements_of(*stored.tensor);
      report.stored_bytes = stored.tensor->data.size();
      const auto form = stored.tensor->shape.size() == 2 ? affine_form(type) : std::nullopt;
      if (form) {
        report.loaded_as = base::concat("affine ", form->bits, "-bit g", form->group_size);
        const uint64_t groups = report.elements / static_cast<uint64_t>(form->group_size);
        report.loaded_bytes =
            report.elements * static_cast<uint64_t>(form->bits) / 8 + groups * (form->has_f32_scales ? 8 : 4);
      } else {
        const bool is_matrix = stored.tensor->shape.size() == 2;
        const mx::Dtype loaded = !is_matrix ? dtype : is_dense(type) ? dense_dtype(type) : mx::float32;
        report.loaded_as = tensor::to_string(loaded);
        report.loaded_bytes = report.elements * loaded.size();
      }
      reports.push_back(std::move(report));
    }
    return reports;
  }

 private:
  std::shared_ptr<const base::MappedFile> map_of(
      const GgufTensor& tensor, const std::vector<std::shared_ptr<const base::MappedFile>>& maps) const {
    for (const auto& map : maps) {
      const auto bytes = map->bytes();
      if (tensor.data.data() >= bytes.data() && tensor.data.data() < bytes.data() + bytes.size()) return map;
    }
    base::fail_artifact("[artifacts.checkpoint] ", origin(), ": tensor ", tensor.name, " has no data");
  }

  bool is_rope(const Stored& stored) const {
    return has_interleaved_rows_ && is_rope_projection(stored.tensor->name);
  }

  /// Undoes the row order of q and k projections along axis 0 (see has_interleaved_rope_rows).
  mx::array reorder_rows(const mx::array& rows, const Stored& stored) const {
    if (!is_rope(stored)) return rows;
    const bool is_query = stored.tensor->name.find("attn_q") != std::string::npos;
    const int64_t heads = is_query ? config().n_heads : config().n_kv_heads;
    const std::vector<int32_t> order = rope_row_order(heads, config().head_dim);
    if (rows.shape(0) != static_cast<int>(order.size())) {
      base::fail_artifact("[artifacts.checkpoint] ", origin(), ": tensor ", stored.tensor->name, " has ",
                          rows.shape(0), " rows; expected ", order.size());
    }
    return mx::take(rows, mx::array(order.data(), {static_cast<int>(order.size())}, mx::int32), 0);
  }

  /// All values: in place for dense types, dequantized to float32 for blocks.
  mx::array values_of(const Stored& stored) const {
    const GgufTensor& tensor = *stored.tensor;
    if (is_dense(tensor.type)) {
      return in_place(tensor.data, shape_of(tensor), dense_dtype(tensor.type), stored.file);
    }
    return filled<float>(shape_of(tensor), mx::float32, elements_of(tensor), [&](std::span<float> values) {
      for_each_piece(tensor, [&](std::size_t first, std::size_t count, std::span<const std::byte> blocks) {
        dequantize_blocks(tensor.type, blocks, values.subspan(first, count));
      });
    });
  }

  /// Calls visit(first element, number of elements, their blocks) for pieces of whole blocks that
  /// make up the tensor, on the pool's threads.
  template <typename Visit>
  void for_each_piece(const GgufTensor& tensor, const Visit& visit) const {
    // Long enough to be worth a task, and whole blocks of every format.
    constexpr std::size_t kPieceElements = 1 << 14;
    const std::size_t elements = elements_of(tensor);
    const auto block_elements = static_cast<std::size_t>(gguf_block_elements(tensor.type));
    const std::size_t block_bytes = gguf_block_bytes(tensor.type);
    const auto run_piece = [&](int piece) {
      const std::size_t first = static_cast<std::size_t>(piece) * kPieceElements;
      const std::size_t count = std::min(kPieceElements, elements - first);
      visit(first, count,
            tensor.data.subspan(first / block_elements * block_bytes, count / block_elements * block_bytes));
    };
    const auto pieces = static_cast<int>((elements + kPieceElements - 1) / kPieceElements);
    if (pool_) {
      pool_->run(pieces, run_piece);
    } else {
      for (int piece = 0; piece < pieces; ++piece) run_piece(piece);
    }
  }

  tensor::QuantizedTensor repack(const GgufTensor& tensor) const {
    const AffineForm form = *affine_form(tensor.type);
    const std::size_t elements = elements_of(tensor);
    const std::size_t groups = elements / static_cast<std::size_t>(form.group_size);
    const std::size_t words = elements * static_cast<std::size_t>(form.bits) / 32;
    const mx::Dtype scale_dtype = form.has_f32_scales ? mx::float32 : mx::float16;
    const auto rows = static_cast<int>(tensor.shape[0]);
    const auto columns = static_cast<int>(tensor.shape[1]);
    const mx::Shape scale_shape{rows, columns / form.group_size};

    mx::allocator::Data scales = tensor::allocate(groups * scale_dtype.size());
    mx::allocator::Data biases = tensor::allocate(groups * scale_dtype.size());
    const auto bytes_of = [&](mx::allocator::Data& data) {
      return std::span(static_cast<std::byte*>(data.buffer().raw_ptr()), groups * scale_dtype.size());
    };
    mx::array codes =
        filled<uint32_t>({rows, columns * form.bits / 32}, mx::uint32, words, [&](std::span<uint32_t> out) {
          for_each_piece(
              tensor, [&](std::size_t first, std::size_t count, std::span<const std::byte> blocks) {
                const auto group = static_cast<std::size_t>(form.group_size);
                const auto bits = static_cast<std::size_t>(form.bits);
                const std::size_t scale_at = first / group * scale_dtype.size();
                const std::size_t scale_bytes = count / group * scale_dtype.size();
                repack_affine(tensor.type, blocks, out.subspan(first * bits / 32, count * bits / 32),
                              bytes_of(scales).subspan(scale_at, scale_bytes),
                              bytes_of(biases).subspan(scale_at, scale_bytes));
              });
        });
    return {std::move(codes), mx::array(std::move(scales), scale_shape, scale_dtype),
            mx::array(std::move(biases), scale_shape, scale_dtype), form.group_size, form.bits};
  }

  GgufFile file_;
  bool has_interleaved_rows_ = false;
  std::shared_ptr<base::ThreadPool> pool_;
};

}  // namespace

std::shared_ptr<const Checkpoint> open_gguf(const ModelFiles& files, std::shared_ptr<base::ThreadPool> pool) {
  std::vector<std::shared_ptr<const base::MappedFile>> maps;
  std::optional<GgufFile> merged;
  for (const std::filesystem::path& path : files.gguf) {
    maps.push_back(base::MappedFile::open(path));
    GgufFile part = GgufFile::parse(maps.back()->bytes(), path.string());
    if (merged)
      merged->merge(std::move(part));
    else
      merged = std::move(part);
  }
  merged->check_complete();
  ModelConfig config = parse_model_config(*merged);
  return std::make_shared<GgufCheckpoint>(std::move(config), std::move(*merged), std::move(maps),
                                          std::move(pool));
}

}  // namespace tessera::artifacts
