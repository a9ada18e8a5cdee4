#include "deckle/kernels/cpu/pointwise/walk.h"

#include "deckle/base/check.h"

namespace deckle::kernels::cpu::pointwise {
namespace {

int64_t broadcast_stride(const View& view, const View& output, int output_dim) {
  const int dim = output_dim - (output.ndim - view.ndim);
  if (dim < 0) return 0;
  if (view.sizes[dim] == output.sizes[output_dim]) return view.strides[dim];
  check(view.sizes[dim] == 1, "size {} of an operand does not broadcast to {}", view.sizes[dim], output.sizes[output_dim]);
  return 0;
}

/// Whether an operand has the sizes of the result in row-major order, more than one element.
bool in_one_run(const View& view, const View& shape) {
  if (view.ndim != shape.ndim || view.table != nullptr) return false;
  int64_t reach = 1;
  for (int dim = shape.ndim - 1; dim >= 0; --dim) {
    const int64_t size = shape.sizes[dim];
    if (view.sizes[dim] != size || (size != 1 && view.strides[dim] != reach)) return false;
    reach *= size;
  }
  return reach > 1;
}

}  // namespace

Walk make_walk(std::span<const View> inputs, std::span<const View> outputs) {
  Walk walk;
  walk.inputs = static_cast<int>(inputs.size());
  walk.count = static_cast<int>(inputs.size() + outputs.size());
  const View& shape = outputs[0];
  const auto view_of = [&](int operand) -> const View& {
    return operand < walk.inputs ? inputs[operand] : outputs[operand - walk.inputs];
  };
  bool one_run = true;
  for (int o = 0; o < walk.count; ++o) {
    const View& view = view_of(o);
    check(view.ndim <= shape.ndim, "an operand has {} dims, the result {} (expected no fewer)", view.ndim, shape.ndim);
    Operand& operand = walk.operands[o];  // member by member: all strides would be cleared, most are never read
    operand.data = static_cast<char*>(view.data);
    operand.dtype = view.dtype;
    operand.item = item_size(view.dtype);
    operand.strides[0] = 0;
    operand.table = nullptr;
    operand.table_dim = 0;
    one_run = one_run && in_one_run(view, shape);
  }
  if (one_run) {  // most calls: what follows would find the same
    walk.dims = 1;
    walk.sizes[0] = shape.numel();
    for (int o = 0; o < walk.count; ++o) walk.operands[o].strides[0] = 1;
    return walk;
  }
  // The dim of the result that an operand's table belongs to; of one row its place is known.
  const auto goes_through_table = [&](int o, int d) { return view_of(o).table != nullptr && d == shape.ndim - view_of(o).ndim; };
  // Innermost first: by ascending stride of the first output.
  int order[kMaxDims];
  int dims = 0;
  for (int d = shape.ndim - 1; d >= 0; --d) {
    if (shape.sizes[d] == 1) continue;
    int at = dims++;  // after those of equal strides; std::stable_sort would ask for memory
    for (; at > 0 && shape.strides[order[at - 1]] > shape.strides[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int i = 0; i < dims; ++i) {
    const int d = order[i];
    int64_t strides[kMaxOperands];
    bool merges = walk.dims > 0;
    for (int o = 0; o < walk.count; ++o) {
      strides[o] = broadcast_stride(view_of(o), shape, d);
      const int last = walk.dims - 1;
      merges = merges && !goes_through_table(o, d) && walk.operands[o].table == nullptr &&
               strides[o] == walk.operands[o].strides[last] * walk.sizes[last];
    }
    if (merges) {
      walk.sizes[walk.dims - 1] *= shape.sizes[d];
      continue;
    }
    for (int o = 0; o < walk.count; ++o) {
      walk.operands[o].strides[walk.dims] = strides[o];
      if (!goes_through_table(o, d)) continue;
      check(walk.dims > 0, "the innermost dim of an operand goes through a table (expected an outer one)");
      walk.operands[o].table = view_of(o).table;
      walk.operands[o].table_dim = walk.dims;
    }
    walk.sizes[walk.dims++] = shape.sizes[d];
  }
  if (walk.dims == 0) walk.sizes[walk.dims++] = 1;
  return walk;
}

}  // namespace deckle::kernels::cpu::pointwise
