#include "tests/ops/nested_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "deckle/functional/transforms.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

using VectorFunction = std::function<Tensors(const Tensors&)>;

struct Pattern {
  int ragged_dims;
  std::vector<int64_t> sizes;  // [components, ragged_dims]
};

/// Zero-length components at the edges and inside, all empty, several lengths; the same with two ragged dims.
const std::vector<Pattern> kPatterns = {{1, {3, 0, 5, 1}}, {1, {0, 0}}, {1, {0, 2, 4, 3}}, {2, {2, 3, 0, 2, 1, 4}}, {2, {0, 3, 2, 0}}, {2, {2, 2, 3, 1}}};

/// An operand in one pattern: packed values, one dense tensor for all, or, of a pointwise op, one tensor per component.
struct Packed {
  Tensor tensor;
  bool nested = false;
  bool per_component = false;
};

int64_t product(Ints sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

/// `rows` rows of as many samples as that takes; nothing if samples have none.
std::optional<Tensor> packed_rows(const Operand& operand, int ragged_dims, int64_t rows) {
  Tensors samples;
  for (int64_t got = 0; got < rows || samples.empty();) {
    const Tensor sample = operand.make();
    const int64_t more = product(sample.sizes().subspan(0, static_cast<size_t>(ragged_dims)));
    if (more == 0 && rows > 0) return std::nullopt;
    Dims sizes = {more};
    for (int64_t dim = ragged_dims; dim < sample.dim(); ++dim) sizes.push_back(sample.size(dim));
    samples.push_back(reshape(sample, sizes));
    got += more;
  }
  return contiguous(narrow(cat(samples, 0), 0, 0, rows));
}

/// [B, 1 for each ragged dim, the sample's last dims]: what broadcasts along the rows of a component.
std::optional<Tensor> per_component(const Operand& operand, int ragged_dims, int64_t regular_dims, int64_t components) {
  Tensors rows;
  for (int64_t b = 0; b < components; ++b) {
    Tensor row = operand.make();
    while (row.dim() > regular_dims) {
      if (row.size(0) == 0) return std::nullopt;
      row = select(row, 0, 0);
    }
    for (int dim = 0; dim < ragged_dims; ++dim) row = unsqueeze(row, 0);
    rows.push_back(row);
  }
  return stack(rows, 0);
}

class Checker {
 public:
  Checker(const NestedCase& op) : op_(op) {
    for (const Operand& operand : op.operands) {
      samples_.push_back(operand.make());
      if (operand.nested && rank_ < 0) rank_ = samples_.back().dim();
    }
  }

  void check_pattern(const Pattern& pattern) {
    SCOPED_TRACE(fmt::format("{} ragged dim(s), sizes [{}]", pattern.ragged_dims, fmt::join(pattern.sizes, ", ")));
    ragged_ = Ragged(std::make_shared<const RaggedShape>(pattern.sizes, pattern.ragged_dims));
    if (!components_fit(pattern.ragged_dims) || !pack(pattern.ragged_dims)) return;
    // Dims of a component from 0 on are the ragged ones.
    if (refused(pattern.ragged_dims)) {
      EXPECT_THROW(on_batch(leaves()), Error) << "a dim that the op does not take must be refused";
      return;
    }
    compare_shapes();
    compare([this](const Tensors& x) { return flattened(on_batch(x)); }, [this](const Tensors& x) { return looped(x); });
  }

  /// On equal lengths a nested tensor is the dense one, over every dim: the sample is the whole batch here.
  void check_equal_lengths(int ragged_dims) {
    SCOPED_TRACE(fmt::format("{} ragged dim(s) of equal lengths", ragged_dims));
    if (rank_ < ragged_dims + 1 || !components_fit(ragged_dims + 1)) return;
    operands_.clear();
    for (size_t i = 0; i < samples_.size(); ++i) {
      const bool nested = op_.operands[i].nested;
      if (!nested && op_.pointwise && samples_[i].defined() && samples_[i].dim() > rank_ - ragged_dims - 1) return;
      operands_.push_back({samples_[i], nested});
      if (!nested) continue;
      if (samples_[i].size(0) == 0) return;  // an empty batch has no lengths
      std::vector<int64_t> sizes;
      for (int64_t b = 0; b < samples_[i].size(0); ++b) {
        for (int dim = 1; dim <= ragged_dims; ++dim) sizes.push_back(samples_[i].size(dim));
      }
      ragged_ = Ragged(std::make_shared<const RaggedShape>(sizes, ragged_dims));
    }
    const auto nested = [this, ragged_dims](const Tensors& x) {
      NestedTensors n;
      for (size_t i = 0; i < x.size(); ++i) n.push_back(operands_[i].nested ? NestedTensor(flatten(x[i], 0, ragged_dims), ragged_) : NestedTensor());
      return op_.nested(n, x, 0);
    };
    if (refused(ragged_dims + 1)) {
      EXPECT_THROW(nested(leaves()), Error) << "a dim that the op does not take must be refused";
      return;
    }
    Tensors expected;
    try {
      expected = op_.dense(leaves());
    } catch (const Error&) {
      return;  // of no elements, say: what nested tensors do then is tested where they are ragged
    }
    const NestedTensors got = nested(leaves());
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i].ragged_dims() == 0) EXPECT_EQ(to_string(got[i].values().sizes()), to_string(expected[i].sizes()));
      else EXPECT_EQ(nested::shape_string(got[i]), to_string(expected[i].sizes()));
    }
    compare([&](const Tensors& x) { return flattened(nested(x)); }, [this](const Tensors& x) { return flattened(op_.dense(x)); });
  }

 private:
  /// Whether nested operands have these leading dims, and the same ones.
  bool components_fit(int leading) const {
    const Tensor* first = nullptr;
    for (size_t i = 0; i < samples_.size(); ++i) {
      if (!op_.operands[i].nested) continue;
      if (samples_[i].dim() < leading) return false;
      if (first == nullptr) first = &samples_[i];
      if (op_.pointwise && samples_[i].dim() != first->dim()) return false;
      for (int dim = 0; dim < leading; ++dim) {
        if (samples_[i].size(dim) != first->size(dim)) return false;
      }
    }
    return true;
  }

  /// Whether the op takes regular dims only and the sample names one of its first `irregular` dims, or has no others.
  bool refused(int irregular) const {
    if (op_.rows) return rank_ <= irregular;
    if (op_.any_dim) return false;
    return std::any_of(op_.dims.begin(), op_.dims.end(), [&](int64_t dim) { return (dim < 0 ? dim + rank_ + op_.inserts : dim) < irregular; });
  }

  bool pack(int ragged_dims) {
    operands_.clear();
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Operand& operand = op_.operands[i];
      const bool broadcasts = op_.pointwise && !operand.nested && samples_[i].dim() > rank_ - ragged_dims;
      std::optional<Tensor> tensor = samples_[i];
      if (operand.nested) tensor = packed_rows(operand, ragged_dims, ragged_->rows());
      if (broadcasts) tensor = per_component(operand, ragged_dims, rank_ - ragged_dims, ragged_->components());
      if (!tensor) return false;
      operands_.push_back({*tensor, operand.nested, broadcasts});
    }
    return true;
  }

  Tensors leaves() const {
    Tensors result;
    for (const Packed& operand : operands_) result.push_back(operand.tensor);
    return result;
  }

  NestedTensors on_batch(const Tensors& x) const {
    NestedTensors n;
    for (size_t i = 0; i < x.size(); ++i) n.push_back(operands_[i].nested ? NestedTensor(x[i], ragged_) : NestedTensor());
    return op_.nested(n, x, 1);
  }

  Tensors on_component(const Tensors& x, int64_t b) const {
    Tensors t;
    for (size_t i = 0; i < x.size(); ++i) {
      t.push_back(operands_[i].nested ? NestedTensor(x[i], ragged_)[b] : operands_[i].per_component ? select(x[i], 0, b) : x[i]);
    }
    return op_.dense(t);
  }

  /// Which components the dense op takes: it may refuse those without elements. What the op on the batch then gives is not compared.
  void compare_shapes() {
    const NestedTensors batch = on_batch(leaves());
    compared_.clear();
    for (int64_t b = 0; b < ragged_->components(); ++b) {
      Tensors component;
      try {
        component = on_component(leaves(), b);
      } catch (const Error&) {
        continue;
      }
      compared_.push_back(b);
      ASSERT_EQ(batch.size(), component.size());
      for (size_t i = 0; i < batch.size(); ++i) {
        ASSERT_EQ(batch[i].components(), ragged_->components());
        EXPECT_EQ(to_string(batch[i][b].sizes()), to_string(component[i].sizes()));
        EXPECT_EQ(name(batch[i].dtype()), name(component[i].dtype()));
      }
    }
  }

  Tensors looped(const Tensors& x) const {
    std::vector<Tensors> parts;
    for (const int64_t b : compared_) {
      const Tensors component = on_component(x, b);
      parts.resize(component.size());
      for (size_t i = 0; i < component.size(); ++i) parts[i].push_back(reshape(component[i], {-1}));
    }
    return joined(parts);
  }

  Tensors flattened(const NestedTensors& results) const {
    std::vector<Tensors> parts(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (compared_.empty()) parts[i].push_back(reshape(results[i].values(), {-1}));
      for (const int64_t b : compared_) parts[i].push_back(reshape(results[i][b], {-1}));
    }
    return joined(parts);
  }
  static Tensors flattened(const Tensors& results) {
    Tensors flat;
    for (const Tensor& result : results) flat.push_back(reshape(result, {-1}));
    return flat;
  }

  static Tensors joined(const std::vector<Tensors>& parts) {
    Tensors result;
    for (const Tensors& part : parts) result.push_back(cat(part, 0));
    return result;
  }

  /// Two functions of the operands: values, and, of the floating results, derivatives.
  void compare(const VectorFunction& got, const VectorFunction& expected) const {
    const Tensors x = leaves();
    const Tensors values = expected(x);
    if (values.empty()) return;
    expect_near(got(x), values, 1e-11, "values");
    if (op_.dtypes) compare_dtypes(got, expected);
    if (op_.derivatives) compare_derivatives(got, expected);
  }

  void compare_dtypes(const VectorFunction& got, const VectorFunction& expected) const {
    const std::pair<DType, double> dtypes[] = {{DType::float32, 2e-5}, {DType::bfloat16, 6e-2}, {DType::float16, 8e-3}};
    for (const auto& [dtype, tolerance] : dtypes) {
      Tensors x = leaves();
      for (Tensor& leaf : x) {
        if (leaf.defined() && leaf.dtype() == DType::float64) leaf = to(leaf, dtype);
      }
      expect_near(got(x), expected(x), tolerance, "in " + std::string(name(dtype)));
    }
  }

  /// As functions of the inputs that derivatives are taken for, with floating results only.
  VectorFunction of_inputs(const VectorFunction& f) const {
    return [this, f](const Tensors& inputs) {
      Tensors x = leaves();
      for (size_t i = 0, next = 0; i < x.size(); ++i) {
        if (op_.operands[i].differentiable) x[i] = inputs[next++];
      }
      Tensors results = f(x);
      std::erase_if(results, [](const Tensor& result) { return !is_floating(result.dtype()); });
      return results;
    };
  }

  void compare_derivatives(const VectorFunction& got, const VectorFunction& expected) const {
    Tensors x;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (op_.operands[i].differentiable) x.push_back(operands_[i].tensor);
    }
    const VectorFunction f = of_inputs(got), g = of_inputs(expected);
    const Tensors results = g(x);
    if (results.empty()) return;
    const Tensors cotangents = random_like(results), tangents = random_like(x), second = random_like(x);
    expect_near(vjp(f, x, cotangents).second, vjp(g, x, cotangents).second, 1e-9, "reverse mode");
    expect_near(jvp(f, x, tangents).second, jvp(g, x, tangents).second, 1e-9, "forward mode");
    const auto gradient = [&](const VectorFunction& of) -> VectorFunction {
      return [of, &cotangents](const Tensors& at) { return vjp(of, at, cotangents).second; };
    };
    expect_near(vjp(gradient(f), x, second).second, vjp(gradient(g), x, second).second, 1e-8, "reverse over reverse");
    expect_near(jvp(gradient(f), x, tangents).second, jvp(gradient(g), x, tangents).second, 1e-8, "forward over reverse");
  }

  static Tensors random_like(const Tensors& tensors) {
    Tensors result;
    for (const Tensor& tensor : tensors) result.push_back(testing::random_tensor(tensor.sizes(), tensor.dtype()));
    return result;
  }

  const NestedCase& op_;
  Tensors samples_;
  int64_t rank_ = -1;  // of the first nested operand's sample
  Ragged ragged_;
  std::vector<Packed> operands_;
  std::vector<int64_t> compared_;
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
    for (const Pattern& pattern : kPatterns) Checker(op).check_pattern(pattern);
    for (const int ragged_dims : {1, 2}) Checker(op).check_equal_lengths(ragged_dims);
  } catch (const Error& error) {
    ADD_FAILURE() << error.message();
  }
}

}  // namespace deckle::suite
