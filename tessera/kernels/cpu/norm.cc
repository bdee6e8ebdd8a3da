#include "tessera/kernels/cpu/norm.h"

#include <mlx/transforms.h>

#include <vector>

#include "tessera/kernels/cpu/pieces.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"
#include "tessera/kernels/reference/elementwise.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

/// Which norm, and which of its operands are there. They come in this order: x, residual, weight, bias.
struct Kind {
  bool is_centred = false;  // a layer norm, else a root-mean-square norm
  bool has_residual = false, has_weight = false, has_bias = false;
  float eps = 0;

  bool operator==(const Kind&) const = default;
  std::size_t weight_at() const { return has_residual ? 2 : 1; }
};

class Norm final : public CpuPrimitive {
 public:
  Norm(mx::Stream stream, const Kind& kind, std::shared_ptr<base::ThreadPool> pool)
      : CpuPrimitive(stream), kind_(kind), pool_(std::move(pool)) {}
  const char* name() const override { return kind_.is_centred ? "tessera::LayerNorm" : "tessera::RmsNorm"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return kind_ == static_cast<const Norm&>(other).kind_;
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return std::vector<mx::Shape>(kind_.has_residual ? 2 : 1, inputs[0].shape());
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    for (mx::array& output : outputs) allocate(output);
    std::vector<RowMajor> operands(inputs.begin(), inputs.end());
    const auto n = static_cast<std::size_t>(inputs[0].shape(-1));
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([operands = std::move(operands), kind = kind_, n, rows = inputs[0].size() / n,
                      out = outputs[0].data<float>(),
                      total = kind_.has_residual ? outputs[1].data<float>() : nullptr, pool = pool_]() {
      std::vector<float> storage[4];
      const auto values = [&](bool is_there, std::size_t at) {
        return is_there ? operands[at].get(storage[at]) : nullptr;
      };
      const float* x = values(true, 0);
      const float* residual = values(kind.has_residual, 1);
      const float* weight = values(kind.has_weight, kind.weight_at());
      const float* bias = values(kind.has_bias, kind.weight_at() + (kind.has_weight ? 1 : 0));
      run_pieces(pool.get(), rows, n, [&](std::size_t first, std::size_t last) {
        for (std::size_t at = first * n; at < last * n; at += n) {
          if (kind.is_centred) {
            target().layer_norm(x + at, weight, bias, kind.eps, n, out + at);
          } else if (residual != nullptr) {
            target().add_rms_norm(x + at, residual + at, weight, kind.eps, n, total + at, out + at);
          } else {
            target().rms_norm(x + at, weight, kind.eps, n, out + at);
          }
        }
      });
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    const auto forward = [kind = kind_](const std::vector<mx::array>& in) {
      std::optional<mx::array> weight, bias;
      if (kind.has_weight) weight = in[kind.weight_at()];
      if (kind.has_bias) bias = in.back();
      if (kind.is_centred) return std::vector{reference::layer_norm(in[0], weight, bias, kind.eps)};
      if (!kind.has_residual) return std::vector{reference::rms_norm(in[0], weight, kind.eps)};
      const auto [normed, total] = reference::add_rms_norm(in[0], in[1], weight, kind.eps);
      return std::vector{normed, total};
    };
    return select(mx::vjp(forward, primals, cotangents).second, argnums);
  }

 private:
  Kind kind_;
  std::shared_ptr<base::ThreadPool> pool_;
};

std::vector<mx::array> make(const Kind& kind, std::vector<mx::array> inputs,
                            std::shared_ptr<base::ThreadPool> pool) {
  const std::size_t n_outputs = kind.has_residual ? 2 : 1;
  const mx::Shape shape = inputs[0].shape();
  return mx::array::make_arrays(
      std::vector<mx::Shape>(n_outputs, shape), std::vector<mx::Dtype>(n_outputs, mx::float32),
      std::make_shared<Norm>(mx::default_stream(mx::Device::cpu), kind, std::move(pool)), std::move(inputs));
}

}  // namespace

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps,
                   std::shared_ptr<base::ThreadPool> pool) {
  std::vector<mx::array> inputs{x};
  if (weight) inputs.push_back(*weight);
  return make({.has_weight = weight.has_value(), .eps = eps}, std::move(inputs), std::move(pool)).front();
}

std::pair<mx::array, mx::array> add_rms_norm(const mx::array& x, const mx::array& residual,
                                             const std::optional<mx::array>& weight, float eps,
                                             std::shared_ptr<base::ThreadPool> pool) {
  std::vector<mx::array> inputs{x, residual};
  if (weight) inputs.push_back(*weight);
  const auto outputs = make({.has_residual = true, .has_weight = weight.has_value(), .eps = eps},
                            std::move(inputs), std::move(pool));
  return {outputs[0], outputs[1]};
}

mx::array layer_norm(const mx::array& x, const std::optional<mx::array>& weight,
                     const std::optional<mx::array>& bias, float eps,
                     std::shared_ptr<base::ThreadPool> pool) {
  std::vector<mx::array> inputs{x};
  if (weight) inputs.push_back(*weight);
  if (bias) inputs.push_back(*bias);
  const Kind kind{
      .is_centred = true, .has_weight = weight.has_value(), .has_bias = bias.has_value(), .eps = eps};
  return make(kind, std::move(inputs), std::move(pool)).front();
}

}  // namespace tessera::kernels::cpu
