// What one layer remembers of a sequence, and how it is read.
//
// Every append stores new keys and values and returns a read: the attention of exactly the queries of
// that append, with the kernel the state was built with. The caller names the phase; a state never
// guesses it from the number of tokens. Source: spec of the reference system 2.1.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/kernels/fused_halves.h"

namespace tessera::state {

class PageRow;

/// What the new tokens of a forward are.
enum class Phase {
  kDecode,     // one token per row
  kWindow,     // any number, causal within the window: prompt chunks, verification
  kCommitted,  // any number of decided tokens, each with single-position arithmetic
};

/// The attention of one append's queries. Valid after later appends and after the state is gone;
/// drop it before the next append where you can, it keeps pages from being reused.
class Read {
 public:
  virtual ~Read() = default;

  /// q [B, H, L, D], rotated, B and L as in the append; returns [B, H, L, Dv] in q's dtype.
  /// May be called any number of times (layers that share keys attend with their own queries).
  virtual mlx::core::array attend(const mlx::core::array& q, float scale) const = 0;
};

/// What a state can do; the state contract test proves each claim.
struct StateCapabilities {
  bool is_trimmable = false;  // trim(n) works for every n up to offset()
  bool is_cloneable = false;  // clone() shares storage and diverges
};

/// The keys and values of one attention layer for one sequence.
/// Belongs to the engine's thread. An exception out of an append poisons the state: every later call
/// throws Internal, and the sequence must be dropped.
class AttentionState {
 public:
  virtual ~AttentionState() = default;

  /// Appends k [B, Hkv, L, D] (rotated for positions offset() ..) and v [B, Hkv, L, Dv].
  /// Throws InvalidArgument on shapes or dtypes that do not fit, or L != 1 in append_decode.
  virtual std::unique_ptr<Read> append_decode(const mlx::core::array& k, const mlx::core::array& v) = 0;
  virtual std::unique_ptr<Read> append_window(const mlx::core::array& k, const mlx::core::array& v) = 0;
  virtual std::unique_ptr<Read> append_committed(const mlx::core::array& k, const mlx::core::array& v) = 0;

  /// Room for `length` more tokens per row, for a kernel that writes keys and values and attends in one
  /// piece (kernels/fused_halves.h); absent when only appends fit. What the kernel returns as its fence
  /// goes to commit_slot() before anything else is asked of the state.
  virtual std::optional<kernels::KvSlot> open_slot(int /*length*/) { return std::nullopt; }
  virtual void commit_slot(const mlx::core::array& /*fence*/) {}

  /// Positions stored so far; the position of the next token.
  virtual int offset() const = 0;
  /// Forgets the newest n positions. Throws InvalidArgument when n > offset().
  virtual void trim(int n) = 0;
  /// The same state over `row`, a clone of this state's row; storage is shared until one of them writes.
  virtual std::unique_ptr<AttentionState> clone(std::shared_ptr<PageRow> row) const = 0;

  virtual StateCapabilities capabilities() const = 0;
  /// Identity of kind and parameters, for example "kv:plain".
  virtual std::string signature() const = 0;
  virtual std::size_t bytes_per_token() const = 0;
  /// What must be evaluated at a chunk boundary for the appends to have happened.
  virtual std::vector<mlx::core::array> pending() const = 0;
};

/// The append that `phase` names.
std::unique_ptr<Read> append(AttentionState& state, Phase phase, const mlx::core::array& k,
                             const mlx::core::array& v);

}  // namespace tessera::state
