#include "tessera/kernels/cpu/elementwise.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/kernels/cpu/pieces.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"
#include "tessera/kernels/reference/elementwise.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

enum class Gate : uint8_t { kSilu, kGelu, kGeluTanh };

class Gated final : public CpuPrimitive {
 public:
  Gated(mx::Stream stream, Gate gate, std::shared_ptr<base::ThreadPool> pool)
      : CpuPrimitive(stream), gate_(gate), pool_(std::move(pool)) {}
  const char* name() const override { return "tessera::Gated"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return gate_ == static_cast<const Gated&>(other).gate_;
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([gate = RowMajor(inputs[0]), up = RowMajor(inputs[1]), n = inputs[0].size(),
                      kind = gate_, pool = pool_, out = outputs[0].data<float>()]() {
      std::vector<float> gates_storage, ups_storage;
      const float* gates = gate.get(gates_storage);
      const float* ups = up.get(ups_storage);
      const auto function = kind == Gate::kSilu   ? target().swiglu
                            : kind == Gate::kGelu ? target().geglu
                                                  : target().geglu_tanh;
      // Whole vectors, so that an element's place in one does not depend on the pieces.
      constexpr std::size_t kBlock = 64;
      run_pieces(pool.get(), (n + kBlock - 1) / kBlock, kBlock, [&](std::size_t first, std::size_t last) {
        const std::size_t at = first * kBlock;
        function(gates + at, ups + at, std::min(n, last * kBlock) - at, out + at);
      });
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    const auto forward = [gate = gate_](const std::vector<mx::array>& in) {
      if (gate == Gate::kSilu) return std::vector{reference::swiglu(in[0], in[1])};
      const Gelu gelu = gate == Gate::kGelu ? Gelu::kExact : Gelu::kTanh;
      return std::vector{reference::geglu(in[0], in[1], gelu)};
    };
    return select(mx::vjp(forward, primals, cotangents).second, argnums);
  }

 private:
  Gate gate_;
  std::shared_ptr<base::ThreadPool> pool_;
};

struct RopeWork {
  const float* x;
  int64_t batch_stride, head_stride, token_stride, element_stride;
  int batch, heads, length, dim, half, offset;
  float scale;
  RopePairs pairs;
  const float* frequencies;
  float* out;
};

/// Tokens [first, last). Cosines and sines of a token are computed once for all rows and heads.
void rotate(const RopeWork& work, int first, int last) {
  std::vector<float> cosines(static_cast<std::size_t>(work.half)), sines(cosines);
  std::vector<float> copy(work.element_stride == 1 ? 0 : static_cast<std::size_t>(work.dim));
  const auto rotate_head = work.pairs == RopePairs::kHalves ? target().rotate : target().rotate_pairs;
  for (int token = first; token < last; ++token) {
    target().rope_angles(static_cast<float>(work.offset + token), work.frequencies, work.half, cosines.data(),
                         sines.data());
    if (work.scale != 1) {
      for (float& cosine : cosines) cosine *= work.scale;
      for (float& sine : sines) sine *= work.scale;
    }
    for (int row = 0; row < work.batch * work.heads; ++row) {
      const float* x = work.x + row / work.heads * work.batch_stride + row % work.heads * work.head_stride +
                       token * work.token_stride;
      if (!copy.empty()) {
        for (int i = 0; i < work.dim; ++i) copy[static_cast<std::size_t>(i)] = x[i * work.element_stride];
        x = copy.data();
      }
      rotate_head(x, cosines.data(), sines.data(), work.half, work.dim,
                  work.out + (static_cast<std::size_t>(row) * static_cast<std::size_t>(work.length) +
                              static_cast<std::size_t>(token)) *
                                 static_cast<std::size_t>(work.dim));
    }
  }
}

class Rope final : public CpuPrimitive {
 public:
  Rope(mx::Stream stream, int offset, float scale, RopePairs pairs, std::shared_ptr<base::ThreadPool> pool)
      : CpuPrimitive(stream), offset_(offset), scale_(scale), pairs_(pairs), pool_(std::move(pool)) {}
  const char* name() const override { return "tessera::Rope"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& rope = static_cast<const Rope&>(other);
    return offset_ == rope.offset_ && scale_ == rope.scale_ && pairs_ == rope.pairs_;
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    const mx::array& x = inputs[0];
    RopeWork work{.x = x.data<float>(),
                  .batch_stride = x.strides(0),
                  .head_stride = x.strides(1),
                  .token_stride = x.strides(2),
                  .element_stride = x.strides(3),
                  .batch = x.shape(0),
                  .heads = x.shape(1),
                  .length = x.shape(2),
                  .dim = x.shape(3),
                  .half = inputs[1].shape(0),
                  .offset = offset_,
                  .scale = scale_,
                  .pairs = pairs_,
                  .frequencies = nullptr,
                  .out = outputs[0].data<float>()};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([work, frequencies = RowMajor(inputs[1]), pool = pool_]() mutable {
      std::vector<float> storage;
      work.frequencies = frequencies.get(storage);
      const std::size_t values =
          static_cast<std::size_t>(work.batch * work.heads) * static_cast<std::size_t>(work.dim);
      run_pieces(pool.get(), static_cast<std::size_t>(work.length), values,
                 [&](std::size_t first, std::size_t last) {
                   rotate(work, static_cast<int>(first), static_cast<int>(last));
                 });
    });
  }

  /// A rotation's gradient is the rotation by the opposite angle. The frequencies are constants.
  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    std::vector<mx::array> gradients;
    for (const int argnum : argnums) {
      if (argnum != 0) {
        throw std::invalid_argument("[kernels.rope] has no gradient with respect to the frequencies");
      }
      gradients.push_back(mx::array(cotangents[0].shape(), mx::float32,
                                    std::make_shared<Rope>(stream(), offset_, scale_, pairs_, pool_),
                                    {cotangents[0], mx::negative(primals[1])}));
    }
    return gradients;
  }

 private:
  int offset_;
  float scale_;
  RopePairs pairs_;
  std::shared_ptr<base::ThreadPool> pool_;
};

mx::array gated(Gate gate, const mx::array& gates, const mx::array& up,
                std::shared_ptr<base::ThreadPool> pool) {
  const mx::Stream stream = mx::default_stream(mx::Device::cpu);
  return mx::array(gates.shape(), mx::float32, std::make_shared<Gated>(stream, gate, std::move(pool)),
                   {gates, up});
}

}  // namespace

mx::array swiglu(const mx::array& gate, const mx::array& up, std::shared_ptr<base::ThreadPool> pool) {
  return gated(Gate::kSilu, gate, up, std::move(pool));
}

mx::array geglu(const mx::array& gate, const mx::array& up, Gelu gelu,
                std::shared_ptr<base::ThreadPool> pool) {
  return gated(gelu == Gelu::kExact ? Gate::kGelu : Gate::kGeluTanh, gate, up, std::move(pool));
}

mx::array rope(const mx::array& x, const Rotation& rotation, int offset,
               std::shared_ptr<base::ThreadPool> pool) {
  const mx::Stream stream = mx::default_stream(mx::Device::cpu);
  return mx::array(x.shape(), mx::float32,
                   std::make_shared<Rope>(stream, offset, rotation.scale, rotation.pairs, std::move(pool)),
                   {x, rotation.frequencies});
}

}  // namespace tessera::kernels::cpu
