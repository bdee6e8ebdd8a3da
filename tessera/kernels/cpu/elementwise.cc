#include "tessera/kernels/cpu/elementwise.h"

#include <mlx/fast.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

class RmsNorm final : public CpuPrimitive {
 public:
  RmsNorm(mx::Stream stream, float eps) : CpuPrimitive(stream), eps_(eps) {}
  const char* name() const override { return "tessera::RmsNorm"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return eps_ == static_cast<const RmsNorm&>(other).eps_;
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    const auto n = static_cast<std::size_t>(inputs[0].shape(-1));
    const auto gain = inputs.size() > 1 ? std::optional(RowMajor(inputs[1])) : std::nullopt;
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([input = RowMajor(inputs[0]), gain, eps = eps_, n, rows = inputs[0].size() / n,
                      out = outputs[0].data<float>()]() {
      std::vector<float> storage, gain_storage;
      const float* x = input.get(storage);
      const float* weight = gain ? gain->get(gain_storage) : nullptr;
      for (std::size_t row = 0; row < rows; ++row)
        target().rms_norm(x + row * n, weight, eps, n, out + row * n);
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    const auto reference = [eps = eps_](const std::vector<mx::array>& in) {
      return std::vector{mx::fast::rms_norm(in[0], in.size() > 1 ? std::optional(in[1]) : std::nullopt, eps)};
    };
    return select(mx::vjp(reference, primals, cotangents).second, argnums);
  }

 private:
  float eps_;
};

class Swiglu final : public CpuPrimitive {
 public:
  using CpuPrimitive::CpuPrimitive;
  const char* name() const override { return "tessera::Swiglu"; }
  bool is_equivalent(const mx::Primitive&) const override { return true; }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([gate = RowMajor(inputs[0]), up = RowMajor(inputs[1]), n = inputs[0].size(),
                      out = outputs[0].data<float>()]() {
      std::vector<float> gates, ups;
      target().swiglu(gate.get(gates), up.get(ups), n, out);
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    const auto reference = [](const std::vector<mx::array>& in) {
      return std::vector{mx::multiply(mx::multiply(in[0], mx::sigmoid(in[0])), in[1])};
    };
    return select(mx::vjp(reference, primals, cotangents).second, argnums);
  }
};

struct RopeWork {
  const float* x;
  int64_t batch_stride, head_stride, token_stride, element_stride;
  int batch, heads, length, dim, half, offset;
  const float* frequencies;
  float* out;
};

/// Cosines and sines of a token are computed once for all rows and heads.
void rotate(const RopeWork& work) {
  std::vector<float> cosines(static_cast<std::size_t>(work.half)), sines(cosines);
  std::vector<float> copy(work.element_stride == 1 ? 0 : static_cast<std::size_t>(work.dim));
  for (int token = 0; token < work.length; ++token) {
    target().rope_angles(static_cast<float>(work.offset + token), work.frequencies, work.half, cosines.data(),
                         sines.data());
    for (int row = 0; row < work.batch * work.heads; ++row) {
      const float* x = work.x + row / work.heads * work.batch_stride + row % work.heads * work.head_stride +
                       token * work.token_stride;
      if (!copy.empty()) {
        for (int i = 0; i < work.dim; ++i) copy[static_cast<std::size_t>(i)] = x[i * work.element_stride];
        x = copy.data();
      }
      target().rotate(x, cosines.data(), sines.data(), work.half, work.dim,
                      work.out + (static_cast<std::size_t>(row) * static_cast<std::size_t>(work.length) +
                                  static_cast<std::size_t>(token)) *
                                     static_cast<std::size_t>(work.dim));
    }
  }
}

class Rope final : public CpuPrimitive {
 public:
  Rope(mx::Stream stream, int offset) : CpuPrimitive(stream), offset_(offset) {}
  const char* name() const override { return "tessera::Rope"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return offset_ == static_cast<const Rope&>(other).offset_;
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
                  .frequencies = nullptr,
                  .out = outputs[0].data<float>()};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([work, frequencies = RowMajor(inputs[1])]() mutable {
      std::vector<float> storage;
      work.frequencies = frequencies.get(storage);
      rotate(work);
    });
  }

  /// A rotation's gradient is the rotation by the opposite angle.
  std::vector<mx::array> vjp(const std::vector<mx::array>& primals, const std::vector<mx::array>& cotangents,
                             const std::vector<int>&, const std::vector<mx::array>&) override {
    return {mx::array(cotangents[0].shape(), mx::float32, std::make_shared<Rope>(stream(), offset_),
                      {cotangents[0], mx::negative(primals[1])})};
  }

 private:
  int offset_;
};

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps) {
  std::vector<mx::array> inputs{x};
  if (weight) inputs.push_back(*weight);
  return mx::array(x.shape(), mx::float32, std::make_shared<RmsNorm>(stream(), eps), std::move(inputs));
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return mx::array(gate.shape(), mx::float32, std::make_shared<Swiglu>(stream()), {gate, up});
}

mx::array rope(const mx::array& x, const mx::array& frequencies, int offset) {
  return mx::array(x.shape(), mx::float32, std::make_shared<Rope>(stream(), offset), {x, frequencies});
}

}  // namespace tessera::kernels::cpu
