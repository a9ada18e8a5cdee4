#pragma once

#include <tuple>
#include <vector>

#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

/// Whether the call that asks is to be checked: every call where assertions are on (no NDEBUG), else none, or every Nth if the
/// environment says DECKLE_CHECK_CALLS=N.
bool checks_this_call();

/// What a call must leave as it was: its tensor inputs keep their memory and version; a result has memory of its own, and a view
/// lies in its input's. Costs one test where calls are not checked.
class CallCheck {
 public:
  template <typename... Inputs>
  explicit CallCheck(const Inputs&... inputs) {
    if (checks_this_call()) [[unlikely]]
      (remember(inputs), ...);
  }

  /// The results of an op that returns no view.
  template <typename Results>
  Results fresh(Results results) const {
    if (!inputs_.empty()) [[unlikely]] {
      check_unchanged();
      each(results, [&](const Tensor& result) { lies_apart(result); });
    }
    return results;
  }

  /// The results of a composite: its input, views and new tensors, which the ops that it is made of answer for.
  template <typename Results>
  Results of_others(Results results) const {
    if (!inputs_.empty()) [[unlikely]]
      check_unchanged();
    return results;
  }

  /// The results of an op whose results are views.
  template <typename Results>
  Results view(Results results) const {
    if (!inputs_.empty()) [[unlikely]] {
      check_unchanged();
      each(results, [&](const Tensor& result) { lies_in_input(result); });
    }
    return results;
  }

 private:
  struct Input {
    Tensor tensor;
    std::shared_ptr<Storage> storage;
    uint64_t version;
  };

  template <typename Visit>
  static void each(const Tensor& result, const Visit& visit) {
    visit(result);
  }
  template <typename Visit>
  static void each(const std::vector<Tensor>& results, const Visit& visit) {
    for (const Tensor& result : results) visit(result);
  }
  template <typename... T, typename Visit>
  static void each(const std::tuple<T...>& results, const Visit& visit) {
    std::apply([&](const T&... result) { (each(result, visit), ...); }, results);
  }
  template <typename Other, typename Visit>
  static void each(const Other&, const Visit&) {}  // numbers

  void remember(const Tensor& input);
  void remember(TensorList inputs);
  void remember(const RowOperand& input) { remember(input.values()); }
  void check_unchanged() const;
  void lies_apart(const Tensor& result) const;
  void lies_in_input(const Tensor& result) const;

  std::vector<Input> inputs_;
};

}  // namespace deckle::autograd
