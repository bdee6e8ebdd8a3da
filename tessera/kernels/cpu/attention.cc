// The attention primitives: over arrays of keys and values, and over pages in place.
#include "tessera/kernels/cpu/attention.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/kernels/cpu/attention_run.h"
#include "tessera/kernels/cpu/pages.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/scratch.h"
#include "tessera/kernels/reference/attention.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

/// [.., H, L, D] float32 with elements side by side, and where its heads and tokens are.
struct HeadRows {
  const float* data;
  std::size_t batch_stride, head_stride, token_stride;

  const float* row(int batch) const { return data + static_cast<std::size_t>(batch) * batch_stride; }
};

/// Reads x in place when its elements are side by side, else from a row-major copy.
class Heads {
 public:
  explicit Heads(const mx::array& x)
      : copy_(x), is_in_place_(x.strides(3) == 1 || x.shape(3) == 1), data_(x.data<float>()) {
    for (int axis = 0; axis < 3; ++axis) {
      // A broadcast axis of length 1 may have any stride.
      strides_[axis] = x.shape(axis) == 1 ? 0 : static_cast<std::size_t>(x.strides(axis));
      shape_[axis] = static_cast<std::size_t>(x.shape(axis));
    }
    dim_ = static_cast<std::size_t>(x.shape(3));
  }

  HeadRows get(std::vector<float>& storage) const {
    if (is_in_place_) return {data_, strides_[0], strides_[1], strides_[2]};
    return {copy_.get(storage), shape_[1] * shape_[2] * dim_, shape_[2] * dim_, dim_};
  }

 private:
  RowMajor copy_;
  bool is_in_place_;
  const float* data_;
  std::size_t strides_[3], shape_[3], dim_;
};

/// Output [B, H, L, Dv] whose memory is [B, L, H, Dv], so that merging the heads copies nothing.
struct MergedHeads {
  float* data;
  std::size_t batch_stride, head_stride, token_stride;

  MergedHeads(mx::array& out) : data(nullptr) {
    const auto heads = static_cast<std::size_t>(out.shape(1));
    head_stride = static_cast<std::size_t>(out.shape(3));
    token_stride = heads * head_stride;
    batch_stride = static_cast<std::size_t>(out.shape(2)) * token_stride;
    const bool is_row_major = out.shape(1) == 1 || out.shape(2) == 1;
    out.set_data(output_memory(out.nbytes()), out.size(),
                 {static_cast<int64_t>(batch_stride), static_cast<int64_t>(head_stride),
                  static_cast<int64_t>(token_stride), 1},
                 {.contiguous = true, .row_contiguous = is_row_major, .col_contiguous = out.size() <= 1});
    data = out.data<float>();
  }
};

class Attention final : public CpuPrimitive {
 public:
  Attention(mx::Stream stream, float scale, bool is_causal, Runtime runtime)
      : CpuPrimitive(stream), scale_(scale), is_causal_(is_causal), runtime_(std::move(runtime)) {}
  const char* name() const override { return "tessera::Attention"; }

  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& same = static_cast<const Attention&>(other);
    return scale_ == same.scale_ && is_causal_ == same.is_causal_ &&
           runtime_.products == same.runtime_.products;
  }

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape[3] = inputs[2].shape(3);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const mx::array& q = inputs[0];
    const mx::array& k = inputs[1];
    const mx::array& v = inputs[2];
    const int stored = k.shape(2);
    const bool is_rounded = runtime_.products != Products::kFloat32 && k.shape(3) % 2 == 0;
    const PageShape shape{.page_tokens = (stored + 15) / 16 * 16,
                          .n_kv_heads = k.shape(1),
                          .key_dim = k.shape(3),
                          .value_dim = v.shape(3),
                          .dtype = is_rounded ? mx::bfloat16 : mx::float32};
    const MergedHeads out(outputs[0]);
    const bool has_mask = inputs.size() > 3;
    const mx::Shape mask_shape = has_mask ? inputs[3].shape() : mx::Shape{};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([shape, out, stored, batch = q.shape(0), heads = q.shape(1), length = q.shape(2),
                      mask_shape, scale = scale_, is_causal = is_causal_, pool = runtime_.pool, q = Heads(q),
                      k = Heads(k), v = Heads(v), mask = RowMajor(has_mask ? inputs[3] : inputs[0])]() {
      std::vector<float> q_storage, k_storage, v_storage, mask_storage;
      const HeadRows queries = q.get(q_storage), keys = k.get(k_storage), values = v.get(v_storage);
      const float* additive = mask_shape.empty() ? nullptr : mask.get(mask_storage);
      const Scratch memory(shape.page_bytes() * static_cast<std::size_t>(batch));
      std::vector<PageTable> tables(static_cast<std::size_t>(batch));
      pool->run(batch, [&](int b) {
        PageTable& table = tables[static_cast<std::size_t>(b)];
        table.pages = {memory.data() + static_cast<std::size_t>(b) * shape.page_bytes()};
        write_positions(shape, table, 0, stored, keys.row(b), keys.head_stride, keys.token_stride,
                        values.row(b), values.head_stride, values.token_stride);
      });
      AttentionRun run{
          .shape = shape, .n_heads = heads, .scale = scale, .is_causal = is_causal, .window = 0, .rows = {}};
      for (int b = 0; b < batch; ++b) {
        AttentionRow row{.table = &tables[static_cast<std::size_t>(b)],
                         .stored = stored,
                         .length = length,
                         .q = queries.row(b),
                         .q_head_stride = queries.head_stride,
                         .q_query_stride = queries.token_stride,
                         .out = out.data + static_cast<std::size_t>(b) * out.batch_stride,
                         .out_head_stride = out.head_stride,
                         .out_query_stride = out.token_stride};
        if (additive != nullptr) {
          row.mask_query_stride = static_cast<std::size_t>(stored);
          const std::size_t head = static_cast<std::size_t>(length) * static_cast<std::size_t>(stored);
          row.mask_head_stride = mask_shape[1] == 1 ? 0 : head;
          const std::size_t each = head * static_cast<std::size_t>(mask_shape[1]);
          row.mask = additive + (mask_shape[0] == 1 ? 0 : static_cast<std::size_t>(b) * each);
        }
        run.rows.push_back(row);
      }
      run_attention(run, *pool);
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    const auto reference = [scale = scale_, is_causal = is_causal_](const std::vector<mx::array>& in) {
      const tensor::Mask mask = in.size() > 3 ? tensor::Mask::of(in[3])
                                : is_causal   ? tensor::Mask::causal()
                                              : tensor::Mask::none();
      return std::vector{reference::attention(in[0], in[1], in[2], scale, mask)};
    };
    return select(mx::vjp(reference, primals, cotangents).second, argnums);
  }

 private:
  float scale_;
  bool is_causal_;
  Runtime runtime_;
};

class PagedAttention final : public CpuPrimitive {
 public:
  PagedAttention(mx::Stream stream, PagedKeys keys, float scale, bool is_causal,
                 std::shared_ptr<base::ThreadPool> pool)
      : CpuPrimitive(stream),
        keys_(std::move(keys)),
        scale_(scale),
        is_causal_(is_causal),
        pool_(std::move(pool)) {}
  const char* name() const override { return "tessera::PagedAttention"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const MergedHeads out(outputs[0]);
    const mx::array& q = inputs[0];
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([out, shape = keys_.shape, table = keys_.table, stored = keys_.length,
                      window = keys_.window, heads = q.shape(1), length = q.shape(2), scale = scale_,
                      is_causal = is_causal_, pool = pool_, q = Heads(q)]() {
      std::vector<float> storage;
      const HeadRows queries = q.get(storage);
      AttentionRun run{.shape = shape,
                       .n_heads = heads,
                       .scale = scale,
                       .is_causal = is_causal,
                       .window = window,
                       .rows = {{.table = table.get(),
                                 .stored = stored,
                                 .length = length,
                                 .q = queries.row(0),
                                 .q_head_stride = queries.head_stride,
                                 .q_query_stride = queries.token_stride,
                                 .out = out.data,
                                 .out_head_stride = out.head_stride,
                                 .out_query_stride = out.token_stride}}};
      run_attention(run, *pool);
    });
  }

 private:
  PagedKeys keys_;
  float scale_;
  bool is_causal_;
  std::shared_ptr<base::ThreadPool> pool_;
};

mx::array as_float32(const mx::array& x) { return mx::astype(x, mx::float32); }

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale, bool is_causal,
                    const std::optional<mx::array>& mask, const Runtime& runtime) {
  mx::Shape shape = q.shape();
  shape[3] = v.shape(3);
  std::vector<mx::array> inputs{as_float32(q), as_float32(k), as_float32(v)};
  if (mask) inputs.push_back(*mask);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<Attention>(stream(), scale, is_causal, runtime), std::move(inputs));
}

mx::array paged_attention(const mx::array& q, const PagedKeys& keys, float scale, bool is_causal,
                          std::shared_ptr<base::ThreadPool> pool) {
  mx::Shape shape = q.shape();
  shape[3] = keys.shape.value_dim;
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<PagedAttention>(stream(), keys, scale, is_causal, std::move(pool)),
                   {as_float32(q), keys.fence});
}

}  // namespace tessera::kernels::cpu
