// The state contract: what any attention state owes, whatever it stores and how. A test hands over a
// factory; the functions here compare the state with a plain recomputation and prove its
// capabilities. A state that lies fails.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tessera/kernels/attention.h"
#include "tessera/state/layer_state.h"
#include "tessera/state/page_pool.h"
#include "tests/arrays.h"

namespace tessera::test {

/// How to make the state under test.
struct StateCase {
  kernels::PageShape shape;
  int n_heads;
  std::function<std::unique_ptr<state::AttentionState>(std::shared_ptr<state::PageRow>)> make;
};

/// A state, its row, and everything that was ever appended to it.
class StateProbe {
 public:
  explicit StateProbe(const StateCase& state_case)
      : case_(state_case),
        row_(std::make_shared<state::PageRow>(state::PagePool::create({state_case.shape}))),
        state_(state_case.make(row_)) {}

  /// Appends `length` random positions and returns the error of the read against dense attention over
  /// everything stored.
  double append(state::Phase phase, int length) {
    const auto& shape = case_.shape;
    const mx::array k = normal({1, shape.n_kv_heads, length, shape.key_dim}, ++seed_, shape.dtype);
    const mx::array v = normal({1, shape.n_kv_heads, length, shape.value_dim}, ++seed_, shape.dtype);
    const mx::array q = normal({1, case_.n_heads, length, shape.key_dim}, ++seed_, shape.dtype);
    const auto read = state::append(*state_, phase, k, v);
    remember(k, v);
    const mx::array attended = read->attend(q, kScale);
    return relative_error(attended, expected(q));
  }

  mx::array expected(const mx::array& q) const {
    return kernels::attention(q, *keys_, *values_, kScale, tensor::Mask::causal());
  }

  void remember(const mx::array& k, const mx::array& v) {
    keys_ = keys_ ? mx::concatenate({*keys_, k}, 2) : k;
    values_ = values_ ? mx::concatenate({*values_, v}, 2) : v;
    mx::eval(*keys_, *values_);
  }

  void trim(int n) {
    state_->trim(n);
    const int kept = keys_->shape(2) - n;
    if (kept == 0) {
      keys_.reset();
      values_.reset();
      return;
    }
    keys_ = mx::slice(*keys_, {0, 0, 0, 0}, {1, keys_->shape(1), kept, keys_->shape(3)});
    values_ = mx::slice(*values_, {0, 0, 0, 0}, {1, values_->shape(1), kept, values_->shape(3)});
    mx::eval(*keys_, *values_);
  }

  /// A probe over a clone; later random positions differ from this one's.
  StateProbe clone() const {
    StateProbe copy(*this, row_->clone());
    copy.seed_ = seed_ + 1000003;
    return copy;
  }

  state::AttentionState& state() { return *state_; }
  state::PageRow& row() { return *row_; }
  static constexpr float kScale = 0.3F;

 private:
  StateProbe(const StateProbe& other, std::shared_ptr<state::PageRow> row)
      : case_(other.case_),
        row_(row),
        state_(other.state_->clone(std::move(row))),
        keys_(other.keys_),
        values_(other.values_) {}

  StateCase case_;
  std::shared_ptr<state::PageRow> row_;
  std::unique_ptr<state::AttentionState> state_;
  std::optional<mx::array> keys_, values_;
  uint64_t seed_ = 0;
};

/// Appends in pieces of many sizes, across page borders, read what dense attention reads.
inline void check_appends(const StateCase& state_case, double tolerance) {
  StateProbe probe(state_case);
  int stored = 0;
  for (const int length : {3, 1, 7, 1, 1, 8, 2, 16, 1, 5}) {
    const state::Phase phase = length == 1 ? state::Phase::kDecode : state::Phase::kWindow;
    EXPECT_LE(probe.append(phase, length), tolerance) << length << " after " << stored;
    stored += length;
    EXPECT_EQ(probe.state().offset(), stored);
  }
  EXPECT_LE(probe.append(state::Phase::kCommitted, 3), tolerance);
}

/// Trimmed positions leave no trace, wherever the cut falls; trimming too much is refused.
inline void check_trim(const StateCase& state_case, double tolerance) {
  StateProbe probe(state_case);
  if (!probe.state().capabilities().is_trimmable) {
    probe.append(state::Phase::kWindow, 2);
    EXPECT_ANY_THROW(probe.state().trim(1));
    return;
  }
  probe.append(state::Phase::kWindow, 21);
  for (const int n : {1, 5, 0, 4, 8}) {
    const int before = probe.state().offset();
    probe.trim(n);
    EXPECT_EQ(probe.state().offset(), before - n);
    EXPECT_LE(probe.append(state::Phase::kWindow, 3), tolerance) << "after trimming " << n;
    EXPECT_LE(probe.append(state::Phase::kDecode, 1), tolerance) << "after trimming " << n;
  }
  EXPECT_ANY_THROW(probe.state().trim(probe.state().offset() + 1));
  EXPECT_ANY_THROW(probe.state().trim(-1));
  probe.trim(probe.state().offset());
  EXPECT_LE(probe.append(state::Phase::kWindow, 9), tolerance) << "after trimming everything";
}

/// A clone and its source go their own ways, from inside a page and from a page border.
inline void check_clone(const StateCase& state_case, double tolerance) {
  for (const int prefix : {1, 7, 8, 13, 16}) {
    StateProbe source(state_case);
    if (!source.state().capabilities().is_cloneable) return;
    source.append(state::Phase::kWindow, prefix);
    StateProbe copy = source.clone();
    for (int step = 0; step < 4; ++step) {
      EXPECT_LE(source.append(state::Phase::kDecode, 1), tolerance) << "source, prefix " << prefix;
      EXPECT_LE(copy.append(state::Phase::kWindow, 3), tolerance) << "clone, prefix " << prefix;
    }
    copy.trim(5);
    EXPECT_LE(copy.append(state::Phase::kWindow, 2), tolerance);
    EXPECT_LE(source.append(state::Phase::kWindow, 2), tolerance);
  }
}

/// A read attends what it saw when it was made, however late it runs.
inline void check_late_reads(const StateCase& state_case, double tolerance) {
  const auto& shape = state_case.shape;
  for (const int trimmed : {0, 2, 6}) {
    StateProbe probe(state_case);
    probe.append(state::Phase::kWindow, 10);
    const mx::array k = normal({1, shape.n_kv_heads, 3, shape.key_dim}, 501, shape.dtype);
    const mx::array v = normal({1, shape.n_kv_heads, 3, shape.value_dim}, 502, shape.dtype);
    const mx::array q = normal({1, state_case.n_heads, 3, shape.key_dim}, 503, shape.dtype);
    auto read = probe.state().append_window(k, v);
    probe.remember(k, v);
    mx::array expected = probe.expected(q);
    mx::eval(expected);
    mx::array late = read->attend(q, StateProbe::kScale);
    if (trimmed > 0) probe.trim(trimmed);
    EXPECT_LE(probe.append(state::Phase::kWindow, 12), tolerance);
    EXPECT_LE(relative_error(late, expected), tolerance) << "built before, run after; trimmed " << trimmed;
    EXPECT_LE(relative_error(read->attend(q, StateProbe::kScale), expected), tolerance)
        << "built after; trimmed " << trimmed;
  }
}

/// A clone's pending copy and a dropped clone's pending read outlive a trim of the source.
inline void check_pending_clones(const StateCase& state_case, double tolerance) {
  const auto& shape = state_case.shape;
  const auto random = [&](int length, uint64_t seed) {
    return normal({1, shape.n_kv_heads, length, shape.key_dim}, seed, shape.dtype);
  };
  StateProbe source(state_case);
  if (!source.state().capabilities().is_cloneable || shape.key_dim != shape.value_dim) return;
  source.append(state::Phase::kWindow, 13);
  StateProbe copy = source.clone();
  const mx::array k = random(1, 601);
  const mx::array q = normal({1, state_case.n_heads, 1, shape.key_dim}, 602, shape.dtype);
  auto read = copy.state().append_decode(k, k);  // the copy of the shared page has not run
  copy.remember(k, k);
  mx::array expected = copy.expected(q);
  mx::eval(expected);
  mx::array late = read->attend(q, StateProbe::kScale);
  source.trim(3);
  EXPECT_LE(source.append(state::Phase::kWindow, 5), tolerance);
  EXPECT_LE(relative_error(late, expected), tolerance) << "the clone saw what its source wrote later";

  std::unique_ptr<state::Read> orphan;
  {
    StateProbe gone = source.clone();
    orphan = gone.state().append_decode(k, k);
    gone.remember(k, k);
    expected = gone.expected(q);
    mx::eval(expected);
  }
  source.trim(4);
  EXPECT_LE(source.append(state::Phase::kWindow, 6), tolerance);
  EXPECT_LE(relative_error(orphan->attend(q, StateProbe::kScale), expected), tolerance)
      << "a read outlives its state";
}

/// Appends that do not fit are refused and leave nothing behind that is used by accident.
inline void check_refusals(const StateCase& state_case) {
  const auto& shape = state_case.shape;
  StateProbe probe(state_case);
  probe.append(state::Phase::kWindow, 4);
  const mx::array two = normal({1, shape.n_kv_heads, 2, shape.key_dim}, 1, shape.dtype);
  EXPECT_ANY_THROW(probe.state().append_decode(two, two));
  const mx::array wrong = normal({1, shape.n_kv_heads + 1, 2, shape.key_dim}, 1, shape.dtype);
  EXPECT_ANY_THROW(probe.state().append_window(wrong, wrong));
  EXPECT_ANY_THROW(probe.state().append_window(two, two)) << "a poisoned state must refuse everything";
}

/// All of it.
inline void check_state_contract(const StateCase& state_case, double tolerance) {
  check_appends(state_case, tolerance);
  check_trim(state_case, tolerance);
  check_clone(state_case, tolerance);
  check_late_reads(state_case, tolerance);
  check_pending_clones(state_case, tolerance);
  check_refusals(state_case);
  StateProbe probe(state_case);
  EXPECT_FALSE(probe.state().signature().empty());
  EXPECT_GT(probe.state().bytes_per_token(), 0U);
}

}  // namespace tessera::test
