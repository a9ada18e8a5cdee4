#include "tests/ops/nested_device.h"

#include <set>
#include <string_view>

#include "tests/ops/suite_support.h"

namespace deckle::suite {
namespace {

/// Ops on batches for which the host waits (docs/gpu_reference.md): the shape of the result depends on values, or indices are
/// checked against each component's length.
const std::set<std::string_view> kWaiting = {
    "gather",    "scatter",        "scatter_add",   "index_put",   "take_along_dim",           "index_select", "from_mask",
    "index_add", "scatter_reduce", "masked_select", "multinomial", "repeat_interleave_Tensor", "unique",       "nonzero"};

}  // namespace

void check_batch_on_device(const std::string& name, const Agreement& on, const VectorFunction& batch, bool host) {
  Case op;
  op.name = name;
  op.tensors = on.operands;
  op.differentiable = on.differentiable;
  op.call = batch;
  op.strided = false;
  op.derivatives = on.derivatives;
  op.dtypes = on.dtypes;
  op.host = host || kWaiting.contains(name);
  check_on_device(op);
}

}  // namespace deckle::suite
