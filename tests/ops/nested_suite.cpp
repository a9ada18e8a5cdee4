#include "tests/ops/nested_suite.h"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/nested_device.h"
#include "tests/ops/nested_patterns.h"
#include "tests/ops/suite_device.h"
#include "tests/support/expect.h"

namespace deckle::suite {
namespace {

/// An operand in one pattern: packed values, one dense tensor for all, or, of a pointwise op, one tensor per component.
struct Packed {
  Tensor tensor;
  Ragged ragged;  // of a nested one
  bool per_component = false;
};

class Checker {
 public:
  Checker(const NestedCase& op) : op_(op) {
    for (const Operand& operand : op.operands) {
      samples_.push_back(operand.make(op.random));
      if (operand.nested && lead_ == nullptr) lead_ = &operand;
      if (operand.nested && rank_ < 0) rank_ = samples_.back().dim();
    }
  }

  /// The sample is a component: its dims from 0 on are the ragged ones.
  void check_pattern(const Pattern& pattern) {
    SCOPED_TRACE(fmt::format("{} ragged dim(s), sizes [{}]", pattern.ragged_dims, fmt::join(pattern.sizes, ", ")));
    if (!components_fit(pattern.ragged_dims) || !pack(pattern)) return;
    const auto batch = [this](const Tensors& x) { return on_batch(x, 1); };
    if (refusal(pattern.ragged_dims, 1)) return expect_refusal(batch, pattern.ragged_dims, 1);
    const std::vector<Tensors> components = take_components();
    NestedTensors got;
    try {
      got = on_batch(leaves(), 1);
    } catch (const Error&) {
      if (on_device())
        expect_same_answer([&] { return flattened_values(batch(on_gpu(leaves()))); },
                           [&] { return flattened_values(batch(leaves())); }, 0, "the batch");
      if (op_.by_hand && compared_.size() < components.size()) return;  // as the dense op refuses a component
      throw;
    }
    compare_shapes(got, components);
    compare([this](const Tensors& x) { return flattened(on_batch(x, 1)); }, [this](const Tensors& x) { return looped(x); },
            pattern.ragged_dims, 1);
  }

  /// Over the batch: at each position of the longest sizes the op of the components that reach it.
  void check_positions(const Pattern& pattern) {
    if (!op_.by_position || op_.dims != std::vector<int64_t>{0}) return;
    SCOPED_TRACE(
        fmt::format("over the batch, {} ragged dim(s), sizes [{}]", pattern.ragged_dims, fmt::join(pattern.sizes, ", ")));
    if (rank_ <= pattern.ragged_dims || !pack(pattern)) return;
    compare([this](const Tensors& x) { return batch_at_positions(x); },
            [this](const Tensors& x) { return dense_at_positions(x); }, pattern.ragged_dims, 0);
  }

  /// On equal lengths a nested tensor is the dense one, over every dim: the sample is the whole batch here.
  void check_equal_lengths(int ragged_dims) {
    SCOPED_TRACE(fmt::format("{} ragged dim(s) of equal lengths", ragged_dims));
    if (rank_ < ragged_dims + 1 || !components_fit(ragged_dims + 1)) return;
    operands_.clear();
    for (size_t i = 0; i < samples_.size(); ++i) {
      const bool nested = op_.operands[i].nested;
      if (!nested && op_.pointwise && samples_[i].defined() && samples_[i].dim() > rank_ - ragged_dims - 1) return;
      operands_.push_back({samples_[i], Ragged()});
      if (!nested) continue;
      if (samples_[i].size(0) == 0) return;  // an empty batch has no lengths
      std::vector<int64_t> sizes;
      for (int64_t b = 0; b < samples_[i].size(0); ++b) {
        for (int dim = 1; dim <= ragged_dims; ++dim) sizes.push_back(samples_[i].size(dim));
      }
      operands_.back().ragged = make_ragged(sizes, ragged_dims);
    }
    const auto nested = [this, ragged_dims](const Tensors& x) {
      NestedTensors n;
      for (size_t i = 0; i < x.size(); ++i)
        n.push_back(op_.operands[i].nested ? NestedTensor(flatten(x[i], 0, ragged_dims), operands_[i].ragged) : NestedTensor());
      return op_.nested(n, x, 0);
    };
    if (refusal(ragged_dims, 0)) return expect_refusal(nested, ragged_dims, 0);
    Tensors expected;
    try {
      expected = op_.dense(leaves());
    } catch (const Error&) {
      return;  // of no elements, say: what nested tensors do then is tested where they are ragged
    }
    const NestedTensors got = nested(leaves());
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string shape = got[i].ragged_dims() == 0 ? to_string(got[i].values().sizes()) : nested::shape_string(got[i]);
      if (got[i].ragged_dims() == 0 || got[i].components() > 0) {  // none have no lengths
        EXPECT_EQ(shape, to_string(expected[i].sizes()));
      }
    }
    compare([&](const Tensors& x) { return flattened_values(nested(x)); },
            [this](const Tensors& x) { return flattened(op_.dense(x)); }, ragged_dims, 0);
  }

 private:
  /// Whether nested operands have these leading dims, and, unless the op itself says which may differ, the same ones.
  bool components_fit(int leading) const {
    const Tensor* first = nullptr;
    for (size_t i = 0; i < samples_.size(); ++i) {
      if (!op_.operands[i].nested) continue;
      if (samples_[i].dim() < leading) return false;
      if (first == nullptr) first = &samples_[i];
      if (op_.pointwise && samples_[i].dim() != first->dim()) return false;
      for (int dim = 0; dim < leading && !op_.by_hand; ++dim) {
        if (samples_[i].size(dim) != first->size(dim)) return false;
      }
    }
    return true;
  }

  /// The kinds of the dims that the sample names; of an op without dims all.
  std::set<Over> kinds(int ragged_dims, int64_t shift) const {
    if (op_.dims.empty()) return {batch, ragged, regular};
    std::set<Over> result;
    for (const int64_t dim : op_.dims)
      result.insert(kind_of(dim < 0 ? dim + rank_ + shift + op_.inserts : dim + shift, ragged_dims));
    return result;
  }

  /// Why the op refuses the dims of the sample; nothing if it does not.
  std::optional<std::string> refusal(int ragged_dims, int64_t shift) const {
    if (op_.rows && rank_ + shift <= ragged_dims + 1) return "is ragged";
    for (const Over kind : kinds(ragged_dims, shift)) {
      if (!op_.refused[kind].empty() && !op_.dims.empty()) return op_.refused[kind];
    }
    return std::nullopt;
  }

  template <typename Body>
  void expect_refusal(Body&& body, int ragged_dims, int64_t shift) const {
    testing::expect_error([&] { body(leaves()); }, *refusal(ragged_dims, shift));
    if (on_device()) testing::expect_error([&] { body(on_gpu(leaves())); }, *refusal(ragged_dims, shift));
    for (const Over kind : kinds(ragged_dims, shift)) {
      if (!op_.refused[kind].empty()) covered(op_.name, kind);
    }
  }

  /// The pattern's sizes for an operand; in ragged dims in which its sample differs from the first operand's, those of the next
  /// component.
  Ragged ragged_of(const Tensor& sample, const Pattern& pattern) const {
    std::vector<int64_t> sizes = pattern.sizes;
    const auto dims = static_cast<size_t>(pattern.ragged_dims);
    if (sizes.empty()) {
      for (int b = 0; b < 3; ++b) sizes.insert(sizes.end(), sample.sizes().begin(), sample.sizes().begin() + pattern.ragged_dims);
      return make_ragged(sizes, pattern.ragged_dims);
    }
    const Tensor first = lead_->make(op_.random);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto dim = static_cast<int64_t>(i % dims);
      if (sample.size(dim) != first.size(dim)) sizes[i] = pattern.sizes[(i + dims) % sizes.size()];
    }
    return make_ragged(sizes, pattern.ragged_dims);
  }

  bool pack(const Pattern& pattern) {
    const int ragged_dims = pattern.ragged_dims;
    const int64_t components = pattern.sizes.empty() ? 3 : static_cast<int64_t>(pattern.sizes.size()) / ragged_dims;
    operands_.clear();
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Operand& operand = op_.operands[i];
      const bool broadcasts = op_.pointwise && !operand.nested && samples_[i].dim() > rank_ - ragged_dims;
      std::optional<Tensor> tensor = samples_[i];
      const Ragged ragged = operand.nested ? ragged_of(samples_[i], pattern) : Ragged();
      if (operand.nested) tensor = packed_rows(operand, op_.random, ragged_dims, ragged->rows());
      if (broadcasts) tensor = per_component(operand, op_.random, ragged_dims, rank_ - ragged_dims, components);
      if (!tensor) return false;
      operands_.push_back({*tensor, ragged, broadcasts});
    }
    return true;
  }

  Tensors leaves() const {
    Tensors result;
    for (const Packed& operand : operands_) result.push_back(operand.tensor);
    return result;
  }

  NestedTensor as_nested(const Tensors& x, size_t i) const {
    return op_.operands[i].nested ? NestedTensor(x[i], operands_[i].ragged) : NestedTensor();
  }

  NestedTensors on_batch(const Tensors& x, int64_t shift) const {
    NestedTensors n;
    for (size_t i = 0; i < x.size(); ++i) n.push_back(as_nested(x, i));
    return op_.nested(n, x, shift);
  }

  Tensors on_component(const Tensors& x, int64_t b) const {
    Tensors t;
    for (size_t i = 0; i < x.size(); ++i) {
      t.push_back(op_.operands[i].nested ? as_nested(x, i)[b] : operands_[i].per_component ? select(x[i], 0, b) : x[i]);
    }
    return op_.dense(t);
  }

  const Ragged& lead_ragged() const {
    return std::find_if(operands_.begin(), operands_.end(), [](const Packed& operand) { return operand.ragged.defined(); })
        ->ragged;
  }

  /// The op on each component. It may refuse those without elements: what the op on the batch then gives is not compared.
  std::vector<Tensors> take_components() {
    std::vector<Tensors> components(static_cast<size_t>(lead_ragged()->components()));
    compared_.clear();
    count_ = 0;
    for (size_t b = 0; b < components.size(); ++b) {
      try {
        components[b] = on_component(leaves(), static_cast<int64_t>(b));
      } catch (const Error&) {
        continue;
      }
      compared_.push_back(static_cast<int64_t>(b));
      count_ = std::max(count_, components[b].size());
    }
    return components;
  }

  void compare_shapes(const NestedTensors& got, const std::vector<Tensors>& components) const {
    for (const int64_t b : compared_) {
      const Tensors& component = components[static_cast<size_t>(b)];
      ASSERT_TRUE(got.size() == component.size() || (op_.by_hand && got.size() > component.size()))
          << got.size() << " results, " << component.size() << " of component " << b;
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].components(), static_cast<int64_t>(components.size()));
        if (i >= component.size()) {
          EXPECT_EQ(got[i][b].numel(), 0) << "result " << i << " of component " << b;
          continue;
        }
        EXPECT_EQ(to_string(got[i][b].sizes()), to_string(component[i].sizes()));
        EXPECT_EQ(name(got[i].dtype()), name(component[i].dtype()));
      }
    }
  }

  Tensors looped(const Tensors& x) const {
    std::vector<Tensors> parts(count_);
    for (const int64_t b : compared_) {
      const Tensors component = on_component(x, b);
      for (size_t i = 0; i < component.size(); ++i) parts[i].push_back(reshape(component[i], {-1}));
    }
    return joined(parts);
  }

  Tensors flattened(const NestedTensors& results) const {
    std::vector<Tensors> parts(count_);
    for (size_t i = 0; i < count_; ++i) {
      for (const int64_t b : compared_) parts[i].push_back(reshape(results[i][b], {-1}));
    }
    return joined(parts);
  }
  static Tensors flattened(const Tensors& results) {
    Tensors flat;
    for (const Tensor& result : results) flat.push_back(reshape(result, {-1}));
    return flat;
  }
  static Tensors flattened_values(const NestedTensors& results) {
    Tensors flat;
    for (const NestedTensor& result : results) flat.push_back(reshape(result.values(), {-1}));
    return flat;
  }

  Tensors dense_at_positions(const Tensors& x) const {
    std::vector<Tensors> parts;
    for_positions(*lead_ragged(), [&](int64_t, const std::vector<int64_t>& place, const std::vector<int64_t>& reaching) {
      Tensors rows;
      for (const int64_t b : reaching) rows.push_back(at_place(as_nested(x, 0)[b], place));
      const Tensors results = op_.dense({stack(rows, 0)});
      parts.resize(results.size());
      for (size_t i = 0; i < results.size(); ++i) {
        const Tensor flat = reshape(results[i], {-1});  // of places among those that reach it: which components they are
        parts[i].push_back(flat.dtype() == DType::int64 ? index_select(nested::index_tensor(reaching), 0, flat) : flat);
      }
    });
    return joined(parts);
  }

  Tensors batch_at_positions(const Tensors& x) const {
    const NestedTensors results = on_batch(x, 0);
    std::vector<Tensors> parts(results.size());
    for_positions(*lead_ragged(), [&](int64_t position, const std::vector<int64_t>& place, const std::vector<int64_t>& reaching) {
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].ragged_dims() == 0) {  // one row for each position
          int64_t rest = 1;
          for (int64_t dim = 1; dim < x[0].dim(); ++dim) rest *= x[0].size(dim);
          parts[i].push_back(select(reshape(results[i].values(), {-1, rest}), 0, position));
          continue;
        }
        for (const int64_t b : reaching) parts[i].push_back(reshape(at_place(results[i][b], place), {-1}));
      }
    });
    if (parts[0].empty()) parts.clear();
    return joined(parts);
  }

  void compare(const VectorFunction& got, const VectorFunction& expected, int ragged_dims, int64_t shift) const {
    Agreement on{leaves(), {}, op_.dtypes, op_.derivatives};
    for (const Operand& operand : op_.operands) on.differentiable.push_back(operand.differentiable);
    const Tensors values = expected(on.operands);
    if (std::none_of(values.begin(), values.end(), [](const Tensor& value) { return value.numel() > 0; })) return;
    if (on_device())
      check_batch_on_device(op_.name, on, got, op_.host);
    else
      expect_agreement(on, got, expected);
    for (const Over kind : kinds(ragged_dims, shift)) covered(op_.name, kind);
  }

  const NestedCase& op_;
  Tensors samples_;
  const Operand* lead_ = nullptr;  // the first nested operand
  int64_t rank_ = -1;              // of its sample
  std::vector<Packed> operands_;
  std::vector<int64_t> compared_;  // components that the dense op takes
  size_t count_ = 0;               // the most results that it has of one
};

}  // namespace

std::vector<int64_t> shifted(Ints dims, int64_t shift) {
  std::vector<int64_t> result;
  for (const int64_t dim : dims) result.push_back(shifted(dim, shift));
  return result;
}

std::vector<int64_t> all_dims(size_t rank, int64_t shift) {
  std::vector<int64_t> result(rank);
  std::iota(result.begin(), result.end(), shift);
  return result;
}

void check(const NestedCase& op) {
  SCOPED_TRACE(op.name);
  try {
    for (const Pattern& pattern : patterns()) {
      Checker(op).check_pattern(pattern);
      Checker(op).check_positions(pattern);
    }
    for (const int ragged_dims : {1, 2}) Checker(op).check_equal_lengths(ragged_dims);
  } catch (const Error& error) {
    ADD_FAILURE() << error.message();
  }
}

}  // namespace deckle::suite
