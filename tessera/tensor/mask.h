// What an attention may see.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <utility>

namespace tessera::tensor {

/// An attention mask for queries [.., L, D] against keys [.., N, D].
struct Mask {
  enum class Mode {
    kNone,    // every query sees every key
    kCausal,  // bottom-right aligned: query i sees keys j <= N - L + i
    kArray,   // `array` decides: bool (true = visible) or added to the scores; broadcasts to [B, H, L, N]
  };

  Mode mode = Mode::kNone;
  std::optional<mlx::core::array> array;  // set exactly in mode kArray
  bool is_causal_equivalent = false;      // the array equals the bottom-right causal matrix

  static Mask none() { return {}; }
  static Mask causal() { return {Mode::kCausal, std::nullopt, true}; }
  static Mask of(mlx::core::array array) { return {Mode::kArray, std::move(array), false}; }
};

}  // namespace tessera::tensor
