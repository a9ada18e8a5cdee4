#include "data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace nested_ops {

namespace dk = deckle;

namespace {

constexpr double kSigma = 0.8;
constexpr int64_t kMean = 120, kShortest = 4, kLongest = 1024;
constexpr int64_t kNarrow = 64, kTableRows = 1000, kMostOwnWeights = 1000;

// Moves lengths by one, in turns, until they add up to `rows`: the dense tensor then has exactly as many elements.
void adjust(std::vector<int64_t>& lengths, int64_t rows, int64_t shortest, int64_t longest) {
  int64_t missing = rows - std::reduce(lengths.begin(), lengths.end());
  for (size_t i = 0; missing != 0; i = (i + 1) % lengths.size()) {
    const int64_t changed = std::clamp(lengths[i] + (missing > 0 ? 1 : -1), shortest, longest);
    missing -= changed - lengths[i];
    lengths[i] = changed;
  }
}

template <typename X>
Operands<X> operands(const Operands<dk::Tensor>& packed, const auto& wrap) {
  return {wrap(packed.x),   wrap(packed.y),       wrap(packed.narrow), wrap(packed.mask), wrap(packed.keep),
          wrap(packed.ids), wrap(packed.places),  packed.weight,       packed.bias,       packed.down,
          packed.own,       packed.per_component, packed.kernel,       packed.table};
}

// Uniform positions in each of the components of these lengths, for every element of `draws`.
dk::NestedTensor positions(const dk::NestedTensor& draws, const dk::Tensor& lengths) {
  return dk::to(dk::mul(draws, dk::view(lengths, {-1, 1, 1})), dk::DType::int64);
}

}  // namespace

Batch draw(const std::string& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (shape == "huge") return {{199'991, 200'007, 199'994, 200'008}, 200'000, 64};
  if (shape == "tiny") {
    Batch batch{std::vector<int64_t>(100'000), 3, 128};
    std::uniform_int_distribution<int64_t> length(1, 5);
    for (int64_t& each : batch.lengths) each = length(random);
    adjust(batch.lengths, 300'000, 1, 5);
    return batch;
  }
  Batch batch{std::vector<int64_t>(shape == "few" ? 64 : 256), kMean, 768};
  std::lognormal_distribution<double> length(std::log(static_cast<double>(kMean)) - kSigma * kSigma / 2, kSigma);
  for (int64_t& each : batch.lengths) each = std::clamp(static_cast<int64_t>(std::llround(length(random))), kShortest, kLongest);
  adjust(batch.lengths, static_cast<int64_t>(batch.lengths.size()) * kMean, kShortest, kLongest);
  return batch;
}

Data make_data(Batch batch, uint64_t seed) {
  dk::Generator generator(seed);
  const auto components = static_cast<int64_t>(batch.lengths.size());
  const int64_t rows = components * batch.mean, features = batch.features;
  const auto normal = [&](dk::Ints sizes) { return dk::randn(sizes, {.generator = &generator}); };

  Operands<dk::Tensor> packed;
  packed.x = normal({rows, features});
  packed.y = normal({rows, features});
  packed.narrow = normal({rows, kNarrow});
  packed.mask = dk::gt(packed.x, 0);
  packed.keep = dk::gt(normal({rows}), 0);
  packed.ids = dk::randint(0, kTableRows, {rows}, {.generator = &generator});
  packed.weight = dk::mul(normal({features, features}), 0.05);
  packed.bias = normal({features});
  packed.down = dk::mul(normal({kNarrow, features}), 0.05);
  if (components <= kMostOwnWeights) packed.own = dk::mul(normal({components, kNarrow, features}), 0.05);
  packed.per_component = normal({components, 1, features});
  packed.kernel = dk::mul(normal({kNarrow, features, 3}), 0.05);
  packed.table = normal({kTableRows, features});

  const dk::Ragged ragged = dk::Ragged::from_lengths(batch.lengths);
  const dk::Ragged even = dk::Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(components), batch.mean));
  Data data{batch,
            operands<dk::NestedTensor>(
                packed, [&](const dk::Tensor& t) { return t.defined() ? dk::NestedTensor(t, ragged) : dk::NestedTensor(); }),
            operands<dk::Tensor>(packed, [&](const dk::Tensor& t) {
              if (!t.defined()) return t;
              return dk::detach(t.dim() == 1 ? dk::view(t, {components, -1}) : dk::view(t, {components, batch.mean, t.size(1)}));
            })};
  const dk::Tensor draws = dk::mul(dk::rand({rows, features}, {.generator = &generator}), 0.999);
  const auto places = [&](const dk::Ragged& shape) {
    return positions({draws, shape}, dk::to(dk::NestedTensor(draws, shape).lengths(), dk::DType::float32));
  };
  data.nested.places = places(ragged);
  data.dense.places = dk::view(places(even).values(), {components, batch.mean, features});
  for (const dk::Tensor& leaf : leaves(data.nested)) leaf.requires_grad_();
  for (const dk::Tensor& leaf : leaves(data.dense)) leaf.requires_grad_();
  return data;
}

}  // namespace nested_ops
