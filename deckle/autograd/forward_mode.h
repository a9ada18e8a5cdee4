#pragma once

#include <memory>
#include <vector>

#include "deckle/autograd/level.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

/// Forward mode: a tensor may carry one tangent per open level. An op handles its levels in ascending order; at each one
/// it works on primals and tangents that see only lower levels, so levels nest with each other and with reverse mode.
namespace deckle::autograd {

struct Tangents;

namespace detail {
struct OpenLevel {
  Level level;
  std::vector<std::weak_ptr<Tangents>> carriers;
};
}  // namespace detail

/// Opens a level for a scope on this thread; at its end all tangents of the level are dropped, wherever they are.
class LevelScope {
 public:
  LevelScope();
  ~LevelScope();
  LevelScope(const LevelScope&) = delete;
  LevelScope& operator=(const LevelScope&) = delete;
  Level level() const { return level_; }

 private:
  Level level_;
};

/// No level is open on this thread inside the scope, and no tangent seen.
class NoLevels {
 public:
  NoLevels();
  ~NoLevels();
  NoLevels(const NoLevels&) = delete;
  NoLevels& operator=(const NoLevels&) = delete;

 private:
  std::vector<detail::OpenLevel> hidden_;
};

/// Number of levels open on this thread.
int open_levels();

/// `tensor` carrying `tangent` (same shape and dtype) at `level`: another variable on the same data, whose gradient flows
/// to `tensor`.
Tensor make_dual(const Tensor& tensor, const Tensor& tangent, Level level);

/// `tensor` as seen below `level`: the same variable without tangents of `level` and above.
Tensor primal(const Tensor& tensor, Level level);
std::vector<Tensor> primal(TensorList tensors, Level level);
inline RepeatedRows primal(const RowOperand& operand, Level level) { return {primal(operand.values(), level), operand.ragged()}; }

bool has_tangent(const Tensor& tensor, Level level);
inline bool has_tangent(const RowOperand& operand, Level level) { return has_tangent(operand.values(), level); }

/// The tangent at `level`; zeros if there is none, undefined for an undefined tensor. A view's comes from its base's.
Tensor tangent(const Tensor& tensor, Level level);
std::vector<Tensor> tangent(TensorList tensors, Level level);
inline RepeatedRows tangent(const RowOperand& operand, Level level) {
  return {tangent(operand.values(), level), operand.ragged()};
}

/// Gives a fresh (non-view) result its tangent, in the result's dtype; an undefined one stands for zeros.
void set_tangent(const Tensor& result, Level level, const Tensor& tangent);

/// After an in-place write: the tangent of `self`, and of its base if it is a view, becomes `tangent`, in self's dtype; an
/// undefined one stands for zeros.
void update_tangent(const Tensor& self, Level level, const Tensor& tangent);

/// After an in-place write of constants: every tangent of `self` becomes zero.
void drop_tangents(const Tensor& self);

/// Turns a view without history into an independent variable before it becomes a leaf: it keeps its tangents and is unaffected
/// by later writes to its base.
void leave_base(const Tensor& view);

namespace detail {
void collect_levels(const Tensor& tensor, std::vector<Level>& levels);
void collect_levels(TensorList tensors, std::vector<Level>& levels);
inline void collect_levels(const RowOperand& operand, std::vector<Level>& levels) { collect_levels(operand.values(), levels); }
std::vector<Level> sorted_unique(std::vector<Level> levels);
}  // namespace detail

/// The levels at which some input has a tangent, ascending. Inputs: Tensors, TensorLists and RowOperands.
template <typename... Inputs>
std::vector<Level> tangent_levels(const Inputs&... inputs) {
  if (open_levels() == 0) return {};
  std::vector<Level> levels;
  (detail::collect_levels(inputs, levels), ...);
  return detail::sorted_unique(std::move(levels));
}

}  // namespace deckle::autograd
