#include "tests/ops/nested_autocast.h"

#include <gtest/gtest.h>

#include <optional>

#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::suite {
namespace {

/// The case on a batch of two components, each of them the sample (shift 1), or of which the sample is the whole (shift 0).
std::optional<Case> on_batch(const NestedCase& op, int64_t shift) {
  Case batch;
  std::vector<Ragged> shapes;
  for (const Operand& operand : op.operands) {
    Tensor tensor = operand.make(op.random);
    batch.differentiable.push_back(operand.differentiable);
    shapes.emplace_back();
    if (operand.nested && tensor.dim() < 2 - shift) return std::nullopt;
    if (operand.nested && shift == 1) {
      shapes.back() = Ragged::from_lengths(std::vector<int64_t>(2, tensor.size(0)));
      tensor = cat({tensor, operand.make(op.random)}, 0);
    } else if (operand.nested) {
      shapes.back() = Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(tensor.size(0)), tensor.size(1)));
      tensor = flatten(tensor, 0, 1);
    }
    batch.tensors.push_back(tensor);
  }
  batch.name = op.name;
  batch.derivatives = op.derivatives;
  batch.call = [&op, shapes, shift](const Tensors& x) {
    NestedTensors nested;
    for (size_t i = 0; i < x.size(); ++i)
      nested.push_back(op.operands[i].nested ? NestedTensor(x[i], shapes[i]) : NestedTensor());
    Tensors values;
    for (const NestedTensor& result : op.nested(nested, x, shift)) values.push_back(result.values());
    return values;
  };
  try {
    batch.call(batch.tensors);
  } catch (const Error&) {
    return std::nullopt;  // it is no such batch
  }
  return batch;
}

}  // namespace

void check_autocast(const NestedCase& op, autograd::Precision precision, const std::vector<bool>& converted) {
  SCOPED_TRACE(op.name);
  std::optional<Case> batch = on_batch(op, 1);
  if (!batch) batch = on_batch(op, 0);
  converts(op.name, batch.has_value());
  if (!batch) return;  // the sample is neither a component nor a batch that the overload takes
  check_autocast(*batch, precision, converted);
}

NestedTensors dense_results(const Tensor& result) {
  return {NestedTensor(result.dim() == 0 ? reshape(result, {1}) : result, Ragged())};
}

}  // namespace deckle::suite
