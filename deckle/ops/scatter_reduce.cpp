// scatter_reduce, and draws from given probabilities.

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

Tensor reduce_segments(const Tensor& values, const Ragged& ragged, ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::sum:
      return segment_sum(values, ragged);
    case ScatterReduction::prod:
      return segment_prod(values, ragged);
    case ScatterReduction::mean:
      return segment_mean(values, ragged);
    case ScatterReduction::amax:
      return segment_amax(values, ragged);
    case ScatterReduction::amin:
      return segment_amin(values, ragged);
  }
  fail("a reduction is unknown (expected sum, prod, mean, amax or amin)");
}

/// Weights as the leaves of a binary tree whose nodes hold the sums below them: a draw, and a weight that changes, take one way
/// between the root and a leaf.
class WeightTree {
 public:
  explicit WeightTree(int64_t count)
      : leaves_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1))))),
        sums_(static_cast<size_t>(2 * leaves_), 0.0) {}

  void assign(const double* weights, int64_t count) {
    std::copy_n(weights, count, sums_.begin() + leaves_);
    for (int64_t node = leaves_ - 1; node > 0; --node) add_up(node);
  }
  /// The place that `uniform` in [0, 1) falls on, if all weights lie side by side in [0, 1), each as long as its share. Never one
  /// of weight 0, for rounding leads into no branch of sum 0; some weight is above 0.
  int64_t draw(double uniform) const {
    double left = uniform * sums_[1];
    int64_t node = 1;
    while (node < leaves_) {
      const double before = sum(2 * node), after = sum(2 * node + 1);
      const bool second = before == 0 || (after != 0 && left >= before);
      if (second) left -= before;
      node = 2 * node + (second ? 1 : 0);
    }
    return node - leaves_;
  }
  void remove(int64_t place) {
    int64_t node = leaves_ + place;
    sums_[static_cast<size_t>(node)] = 0;
    while ((node /= 2) > 0) add_up(node);
  }

 private:
  double sum(int64_t node) const { return sums_[static_cast<size_t>(node)]; }
  void add_up(int64_t node) { sums_[static_cast<size_t>(node)] = sum(2 * node) + sum(2 * node + 1); }

  int64_t leaves_;            // a power of two; those beyond the weights are 0
  std::vector<double> sums_;  // the root is node 1, node n lies above 2 n and 2 n + 1
};

}  // namespace

Tensor composite::scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                                 ScatterReduction reduction, bool include_self) {
  const int64_t rank = self.dim();
  check(rank > 0 && dim >= -rank && dim < rank, Argument{"dim"}, "{} is out of range for self of shape {} (expected {})", dim,
        self.sizes(), Range{-rank, rank - 1});
  if (dim < 0) dim += rank;
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, Argument{"index"}, "is {} (expected int64 or int32)",
        name(index.dtype()));
  check(src.dtype() == self.dtype(), "self is {}, src is {} (expected one dtype)", name(self.dtype()), name(src.dtype()));
  bool fits = index.dim() == rank && src.dim() == rank;
  for (int64_t d = 0; fits && d < rank; ++d) fits = index.size(d) <= src.size(d) && (d == dim || index.size(d) <= self.size(d));
  check(fits, "index has shape {}, src {} and self {} (expected index to fit into both, but for dim {} of self)", index.sizes(),
        src.sizes(), self.sizes(), dim);
  Tensor source = src;
  for (int64_t d = 0; d < rank; ++d) source = narrow(source, d, 0, index.size(d));
  // The elements that come together at each place of self, which stands first itself: one component for each place.
  const Tensor chosen = native::on_host(native::copy_as(index, DType::int64));
  const int64_t places = self.numel(), count = chosen.numel();
  std::vector<int64_t> target(static_cast<size_t>(count)), lengths(static_cast<size_t>(places), include_self ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int64_t d = rank - 1; d >= 0; --d) {
      int64_t at = rest % index.size(d);
      rest /= index.size(d);
      if (d == dim) {
        at = chosen.data<int64_t>()[i];
        check(at >= 0 && at < self.size(dim), "index {} is out of range for dim {} of shape {} (expected {})", at, dim,
              self.sizes(), Range{0, self.size(dim) - 1});
      }
      place += at * step;
      step *= self.size(d);
    }
    target[static_cast<size_t>(i)] = place;
    ++lengths[static_cast<size_t>(place)];
  }
  std::vector<int64_t> next(lengths.size()),
      rows(static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})));
  std::exclusive_scan(lengths.begin(), lengths.end(), next.begin(), int64_t{0});
  for (int64_t place = 0; include_self && place < places; ++place)
    rows[static_cast<size_t>(next[static_cast<size_t>(place)]++)] = place;
  for (int64_t i = 0; i < count; ++i)
    rows[static_cast<size_t>(next[static_cast<size_t>(target[static_cast<size_t>(i)])]++)] = places + i;
  const Tensor own = reshape(self, {places});
  const Tensor packed = index_select(deckle::cat({own, reshape(source, {count})}, 0), 0, tensor(rows));
  const Tensor result = to(reduce_segments(packed, Ragged::from_lengths(lengths), reduction), self.dtype());
  if (include_self) return reshape(result, self.sizes());
  const Tensor untouched = empty({places}, DType::bool_, Device());
  for (int64_t place = 0; place < places; ++place) untouched.data<bool>()[place] = lengths[static_cast<size_t>(place)] == 0;
  return reshape(where(native::move_to(untouched, self.device()), own, result), self.sizes());
}

Tensor composite::multinomial(const Tensor& self, int64_t num_samples, bool replacement, Generator* generator) {
  check(self.dim() == 1 || self.dim() == 2, Argument{"self"}, "has shape {} (expected [N] or [rows, N])", self.sizes());
  check(is_floating(self.dtype()), Argument{"self"}, "is {} (expected a floating dtype)", name(self.dtype()));
  check(num_samples >= 0, Argument{"num_samples"}, "is {} (expected 0 or more)", num_samples);
  // Each draw without replacement depends on those before it: one at a time, on the host.
  const Tensor weights = native::on_host(native::copy_as(self.detach(), DType::float64));
  const OnDevice host{Device()};
  const int64_t n = self.size(-1), rows = self.dim() == 1 ? 1 : self.size(0);
  Dims sizes(self.sizes());
  sizes.back() = num_samples;
  const Tensor uniform = rand({rows, num_samples}, {.dtype = DType::float64, .generator = generator}),
               result = empty(sizes, DType::int64);
  WeightTree tree(n);
  for (int64_t r = 0; r < rows; ++r) {
    const double *const row = weights.data<double>() + r * n, *const end = row + n;
    const bool valid = std::all_of(row, end, [](double w) { return w >= 0 && w < 1e300; });
    check(valid, "row {} of self has a negative, infinite or NaN weight (expected 0 or more)", r);
    const int64_t likely = std::count_if(row, end, [](double w) { return w > 0; });
    check(num_samples == 0 || likely >= (replacement ? 1 : num_samples),
          "row {} of self has {} weights above 0 (expected {} or more)", r, likely, replacement ? 1 : num_samples);
    if (num_samples == 0) continue;
    tree.assign(row, n);
    for (int64_t k = 0; k < num_samples; ++k) {
      const int64_t place = tree.draw(uniform.data<double>()[r * num_samples + k]);
      result.data<int64_t>()[r * num_samples + k] = place;
      if (!replacement) tree.remove(place);
    }
  }
  return native::move_to(result, self.device());
}

}  // namespace deckle
