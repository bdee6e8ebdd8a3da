#include "tessera/kernels/fused_halves.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/fused_halves.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {
namespace {

namespace mx = mlx::core;
using tensor::to_string;

void make_ready(std::optional<mx::array>& vector) {
  if (!vector) return;
  vector = mx::contiguous(mx::astype(*vector, mx::float32));
  mx::eval(*vector);
}

void check_projection(const char* where, const char* name, const Projection& projection, int rows,
                      int columns) {
  const PackedLayout& layout = projection.matrix.layout;
  if (layout.rows != rows || layout.columns != columns) {
    base::fail_argument("[", where, "] ", name, " is [", layout.rows, ", ", layout.columns, "]; expected [",
                        rows, ", ", columns, "]");
  }
  if (projection.bias && projection.bias->shape() != mx::Shape{rows}) {
    base::fail_argument("[", where, "] bias of ", name, " is ", to_string(projection.bias->shape()),
                        "; expected [", rows, "]");
  }
}

void check_activations(const char* where, const mx::array& x, int columns,
                       const std::optional<mx::array>& residual) {
  if (x.ndim() != 3 || x.shape(2) != columns || x.size() == 0 || x.dtype() != mx::float32) {
    base::fail_argument("[", where, "] x is ", to_string(x.shape()), " ", to_string(x.dtype()),
                        "; expected [B, L, ", columns, "] float32");
  }
  if (residual && (residual->shape() != x.shape() || residual->dtype() != mx::float32)) {
    base::fail_argument("[", where, "] residual is ", to_string(residual->shape()), " ",
                        to_string(residual->dtype()), "; expected ", to_string(x.shape()), " float32");
  }
}

void check_adapters(const char* where, const char* name, const RowAdapters& adapters, int batch,
                    const Projection& projection) {
  if (adapters.empty()) return;
  if (adapters.size() != static_cast<std::size_t>(batch)) {
    base::fail_argument("[", where, "] ", adapters.size(), " adapters of ", name, " for ", batch, " rows");
  }
  for (const auto& adapter : adapters) {
    if (!adapter) continue;
    const int rank = adapter->a.ndim() == 2 ? adapter->a.shape(0) : 0;
    const mx::Shape a{rank, projection.matrix.layout.columns}, b{projection.matrix.layout.rows, rank};
    if (rank < 1 || adapter->a.shape() != a || adapter->b.shape() != b || adapter->a.dtype() != mx::float32 ||
        adapter->b.dtype() != mx::float32) {
      base::fail_argument("[", where, "] adapter of ", name, " is ", to_string(adapter->a.shape()), " and ",
                          to_string(adapter->b.shape()), "; expected [r, ", projection.matrix.layout.columns,
                          "] and [", projection.matrix.layout.rows, ", r] in float32");
    }
  }
}

void check_norm(const char* where, const std::optional<mx::array>& norm, int columns) {
  if (norm && norm->shape() != mx::Shape{columns}) {
    base::fail_argument("[", where, "] norm is ", to_string(norm->shape()), "; expected [", columns, "]");
  }
}

}  // namespace

std::shared_ptr<const AttentionHalf> make_attention_half(AttentionHalf half) {
  const int columns = half.q.matrix.layout.columns;
  check_norm("kernels.attention_half", half.norm, columns);
  if (half.n_heads < 1 || half.q.matrix.layout.rows % half.n_heads != 0) {
    base::fail_argument("[kernels.attention_half] ", half.q.matrix.layout.rows, " query rows for ",
                        half.n_heads, " heads");
  }
  for (auto* bias : {&half.norm, &half.q.bias, &half.k.bias, &half.v.bias, &half.o.bias}) make_ready(*bias);
  std::optional<mx::array> frequencies = half.frequencies;
  make_ready(frequencies);
  half.frequencies = *frequencies;
  return std::make_shared<const AttentionHalf>(std::move(half));
}

std::shared_ptr<const MlpHalf> make_mlp_half(MlpHalf half) {
  const int columns = half.gate.matrix.layout.columns;
  const int inner = half.gate.matrix.layout.rows;
  check_norm("kernels.mlp_half", half.norm, columns);
  check_projection("kernels.mlp_half", "gate", half.gate, inner, columns);
  check_projection("kernels.mlp_half", "up", half.up, inner, columns);
  check_projection("kernels.mlp_half", "down", half.down, columns, inner);
  for (auto* bias : {&half.norm, &half.gate.bias, &half.up.bias, &half.down.bias}) make_ready(*bias);
  return std::make_shared<const MlpHalf>(std::move(half));
}

bool fits(const AttentionHalf& half, const PageShape& shape) {
  const int n_rotated = 2 * half.frequencies.shape(0);
  return shape.is_readable_in_place() && shape.n_kv_heads > 0 && half.n_heads % shape.n_kv_heads == 0 &&
         half.q.matrix.layout.rows == half.n_heads * shape.key_dim && n_rotated <= shape.key_dim;
}

std::pair<mx::array, mx::array> attention_half(const mx::array& x, std::shared_ptr<const AttentionHalf> half,
                                               const KvSlot& slot, const std::optional<mx::array>& residual,
                                               const AttentionAdapters& adapters) {
  constexpr const char* kWhere = "kernels.attention_half";
  TESSERA_CHECK(fits(*half, slot.shape));
  const int columns = half->q.matrix.layout.columns;
  check_activations(kWhere, x, columns, residual);
  check_projection(kWhere, "k", half->k, slot.shape.n_kv_heads * slot.shape.key_dim, columns);
  check_projection(kWhere, "v", half->v, slot.shape.n_kv_heads * slot.shape.value_dim, columns);
  check_projection(kWhere, "o", half->o, columns, half->n_heads * slot.shape.value_dim);
  check_adapters(kWhere, "q", adapters.q, x.shape(0), half->q);
  check_adapters(kWhere, "k", adapters.k, x.shape(0), half->k);
  check_adapters(kWhere, "v", adapters.v, x.shape(0), half->v);
  check_adapters(kWhere, "o", adapters.o, x.shape(0), half->o);
  if (slot.rows.size() != static_cast<std::size_t>(x.shape(0))) {
    base::fail_argument("[", kWhere, "] ", slot.rows.size(), " rows of keys for a batch of ", x.shape(0));
  }
  for (const KvSlot::Row& row : slot.rows) {
    TESSERA_CHECK(row.position >= 0 &&
                  row.table->pages.size() * static_cast<std::size_t>(slot.shape.page_tokens) >=
                      static_cast<std::size_t>(row.position) + static_cast<std::size_t>(x.shape(1)));
  }
  return cpu::attention_half(x, std::move(half), slot, residual, adapters);
}

mx::array mlp_half(const mx::array& x, std::shared_ptr<const MlpHalf> half,
                   const std::optional<mx::array>& residual, const MlpAdapters& adapters) {
  constexpr const char* kWhere = "kernels.mlp_half";
  check_activations(kWhere, x, half->gate.matrix.layout.columns, residual);
  check_adapters(kWhere, "gate", adapters.gate, x.shape(0), half->gate);
  check_adapters(kWhere, "up", adapters.up, x.shape(0), half->up);
  check_adapters(kWhere, "down", adapters.down, x.shape(0), half->down);
  return cpu::mlp_half(x, std::move(half), residual, adapters);
}

}  // namespace tessera::kernels
