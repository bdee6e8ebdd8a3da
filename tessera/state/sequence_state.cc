#include "tessera/state/sequence_state.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera::state {

int SequenceState::offset() const {
  int offset = layers_.empty() ? 0 : layers_.front()->offset();
  for (const auto& layer : layers_) offset = std::min(offset, layer->offset());
  return offset;
}

void SequenceState::rollback(int length) {
  if (length < 0 || length > offset()) {
    base::fail_argument("[state.rollback] to ", length, " positions of a sequence that holds ", offset());
  }
  for (const auto& layer : layers_) layer->trim(layer->offset() - length);
  row_->truncate(length);
}

SequenceState SequenceState::clone() const {
  auto row = row_->clone();
  std::vector<std::unique_ptr<AttentionState>> layers;
  layers.reserve(layers_.size());
  for (const auto& layer : layers_) layers.push_back(layer->clone(row));
  return SequenceState(std::move(row), std::move(layers));
}

std::vector<mlx::core::array> SequenceState::pending() const {
  std::vector<mlx::core::array> arrays;
  for (const auto& layer : layers_) {
    for (auto& array : layer->pending()) arrays.push_back(array);
  }
  return arrays;
}

std::size_t SequenceState::bytes_per_token() const {
  std::size_t bytes = 0;
  for (const auto& layer : layers_) bytes += layer->bytes_per_token();
  return bytes;
}

}  // namespace tessera::state
