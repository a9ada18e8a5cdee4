#pragma once

#include <string>
#include <vector>

#include "tests/ops/agreement.h"
#include "tests/ops/nested_coverage.h"

/// Ops on nested tensors whose meaning is not that of the dense op on each component, beside a loop written for them: one table
/// of cases, held to agree as the generated ones are.
namespace deckle::suite {

/// Each result as the list of its components; one dense tensor is a list of one.
using Parts = std::vector<Tensors>;
using Batch = std::vector<NestedTensor>;  // the operands

inline const std::vector<Over> kAll = {batch, ragged, regular};

struct HandCase {
  std::string name;
  std::vector<Over> over;  // the kinds of dims that the case is about; none: a function without an entry
  Batch operands;          // dense ones have no ragged dim
  std::function<Parts(const Batch& x)> nested;
  std::function<Parts(const Batch& x)> loop;  // out of components x[i][b] and dense x[i].values()
};

/// A captured operand where the others are.
inline NestedTensor there(const NestedTensor& captured, const Batch& x) { return captured.to(x[0].device()); }
inline Tensor there(const Tensor& captured, const Batch& x) { return captured.to(x[0].device()); }

/// Equal shapes of all parts, values and derivatives; notes what was covered.
void check(const HandCase& op);

/// body(ragged) on ragged shapes, zero-length components included.
void for_patterns(int ragged_dims, const std::function<void(const Ragged& ragged)>& body);

/// Random operands.
NestedTensor normal(const Ragged& ragged, Dims regular = {});
NestedTensor dense_normal(Ints sizes);
/// int64 [B, K..]: K is `longest` or fewer where ceiling(b) > 0, else 0; below ceiling(b).
NestedTensor indices(const Ragged& ragged, int64_t longest, const std::function<int64_t(int64_t b)>& ceiling);
/// int64 values in [low, high), of that ragged shape.
NestedTensor integers(const Ragged& ragged, int64_t low, int64_t high, Dims regular = {});
NestedTensor mask(const Ragged& ragged, Dims regular = {});

/// f(b) for every component.
Tensors each(const NestedTensor& x, const std::function<Tensor(int64_t b)>& f);
/// The components of a result.
inline Tensors parts(const NestedTensor& result) { return result.unbind(); }
/// Of several results.
Parts parts(const std::vector<NestedTensor>& results);

}  // namespace deckle::suite
