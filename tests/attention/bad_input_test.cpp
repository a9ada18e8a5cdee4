// Every invalid argument of attention, one row each: the message names it and says what would be accepted.

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "deckle/attention/attention.h"
#include "deckle/attention/candidates.h"
#include "deckle/core/storage.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::error_of;
using testing::expect_close;
using testing::random_tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Tensor x(Ints sizes, DType dtype = DType::float64) { return random_tensor(sizes, dtype); }
NestedTensor ragged(std::initializer_list<int64_t> lengths, Ints regular, DType dtype = DType::float64) {
  Dims sizes{std::reduce(lengths.begin(), lengths.end())};
  for (const int64_t size : regular) sizes.push_back(size);
  return NestedTensor::from_lengths(random_tensor(sizes, dtype), lengths);
}
/// [planes, rows, keys], both ragged: `sizes` are rows and keys of each plane.
NestedTensor planes(std::vector<int64_t> sizes, DType dtype = DType::float64) {
  int64_t numel = 0;
  for (size_t b = 0; b < sizes.size(); b += 2) numel += sizes[b] * sizes[b + 1];
  return {random_tensor({numel}, dtype), Ragged(std::make_shared<const RaggedShape>(std::move(sizes), 2))};
}
/// Where factories make no tensors.
Device other_device() { return Device{DeviceKind::cuda, static_cast<int16_t>(factory_device().is_cuda() ? 1 : 0)}; }
/// A tensor there, without memory in this process: refused inputs are not read.
Tensor elsewhere(Ints sizes) {
  return make_tensor(std::make_shared<Storage>(nullptr, int64_t{1} << 20, other_device(), [] {}), sizes, x(sizes).strides(), 0,
                     DType::float64);
}

std::string on_two_devices(const std::string& name, Device on = other_device(), Device q = factory_device()) {
  return "attention: " + name + " is on " + to_string(on) + ", q on " + to_string(q) + " (expected one device)";
}

struct Refusal {
  std::function<void()> call;
  std::string message;
};

/// Behind the messages stand the shapes of nested operands, where those are not given in it.
void expect_refusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const std::string message = error_of(refusal.call);
    EXPECT_EQ(message.substr(0, message.find("; q is [")), refusal.message);
  }
}

/// attention(d, d, d, options) for d [2, 3, 4, 8]: 2 sequences, 3 rows and keys, 4 heads.
std::function<void()> with(const AttentionOptions& options, DType dtype = DType::float64) {
  return [=] {
    const Tensor d = x({2, 3, 4, 8}, dtype);
    attention(d, d, d, options);
  };
}
/// The same of a nested batch with 2 and 3 rows.
std::function<void()> nested_with(const AttentionOptions& options) {
  return [=] {
    const NestedTensor n = ragged({2, 3}, {4, 8});
    attention(n, n, n, options);
  };
}

// All of q, k and v are dense, or all are nested; the compiler refuses the rest.
template <typename Q, typename K, typename V>
concept Attends = requires(Q q, K k, V v) {
  attention(q, k, v);
};
static_assert(Attends<Tensor, Tensor, Tensor> && Attends<NestedTensor, NestedTensor, NestedTensor>);
static_assert(!Attends<NestedTensor, Tensor, Tensor> && !Attends<Tensor, NestedTensor, NestedTensor> &&
              !Attends<NestedTensor, NestedTensor, Tensor>);

TEST(AttentionBadInput, QueriesKeysAndValues) {
  const auto call = [](const auto& q, const auto& k, const auto& v) { return [=] { attention(q, k, v); }; };
  const Tensor d = x({2, 3, 4, 8});
  const NestedTensor n = ragged({2, 3}, {4, 8});
  expect_refusals({
      {call(Tensor(), d, d), "attention: q is undefined (expected 4 dims: batch, rows, heads, head dim)"},
      {call(d, Tensor(), d), "attention: k is undefined (expected 4 dims: batch, rows, heads, head dim)"},
      {call(n, n, NestedTensor()), "attention: v is undefined (expected 4 dims: batch, rows, heads, head dim)"},
      {call(x({3, 4, 8}), d, d), "attention: q has shape [3, 4, 8] (expected 4 dims: batch, rows, heads, head dim)"},
      {call(d, d, x({2, 3, 4, 8, 1})), "attention: v has shape [2, 3, 4, 8, 1] (expected 4 dims: batch, rows, heads, head dim)"},
      {call(n, ragged({2, 3}, {8}), n), "attention: k has shape [2, 2..3, 8] (expected 4 dims: batch, rows, heads, head dim)"},
      {call(NestedTensor(d, Ragged()), n, n), "attention: q has 0 ragged dims (expected 1, the rows)"},
      {call(d, x({1, 3, 4, 8}), x({1, 3, 4, 8})), "attention: q, k and v have 2, 1 and 1 sequences (expected the same)"},
      {call(n, ragged({2, 2, 1}, {4, 8}), ragged({2, 2, 1}, {4, 8})),
       "attention: q has 2 sequences, k and v have 3 (expected the same)"},
      {call(d, d, x({2, 5, 4, 8})), "attention: k has 3 rows per sequence, v has 5 (expected the same)"},
      {call(n, n, ragged({3, 2}, {4, 8})),
       "attention: k has 2 components of lengths [2, 3], v has 2 components of lengths [3, 2] (expected the same)"},
      {call(d, x({2, 3, 4, 7}), d), "attention: q has head dim 8, k has 7 (expected the same)"},
      {call(d, d, x({2, 3, 2, 8})), "attention: k has 4 heads, v has 2 (expected the same)"},
      {call(d, x({2, 3, 3, 8}), x({2, 3, 3, 8})),
       "attention: q has 4 heads, k and v have 3 (expected a multiple of theirs, 1 or more)"},
      {call(x({2, 3, 2, 8}), d, d), "attention: q has 2 heads, k and v have 4 (expected a multiple of theirs, 1 or more)"},
      {call(x({2, 3, 0, 8}), d, d), "attention: q has 0 heads, k and v have 4 (expected a multiple of theirs, 1 or more)"},
      {call(d, x({2, 3, 0, 8}), x({2, 3, 0, 8})),
       "attention: q has 4 heads, k and v have 0 (expected a multiple of theirs, 1 or more)"},
      {call(d, x({2, 3, 4, 8}, DType::float32), d),
       "attention: q, k and v are float64, float32 and float64 (expected one dtype)"},
      {call(d.to(DType::int64), d.to(DType::int64), d.to(DType::int64)),
       "attention: q, k and v are int64 (expected float64, float32, bfloat16 or float16)"},
      {call(elsewhere({2, 3, 4, 8}), d, d), on_two_devices("k", factory_device(), other_device())},
      {call(d, d, elsewhere({2, 3, 4, 8})), on_two_devices("v")},
  });
}

TEST(AttentionBadInput, Numbers) {
  expect_refusals({
      {with({.scale = kInfinity}), "attention: scale is inf (expected a finite number in the range of float64)"},
      {with({.scale = kNaN}), "attention: scale is nan (expected a finite number in the range of float64)"},
      {with({.scale = 1e39}, DType::bfloat16), "attention: scale is 1e+39 (expected a finite number in the range of float32)"},
      {with({.scale = 1e-50}, DType::float32), "attention: scale is 1e-50 (expected a finite number in the range of float32)"},
      {with({.soft_cap = -1}), "attention: soft_cap is -1 (expected 0 for none, or a positive number in the range of float64)"},
      {with({.soft_cap = kNaN}),
       "attention: soft_cap is nan (expected 0 for none, or a positive number in the range of float64)"},
      {with({.soft_cap = kInfinity}),
       "attention: soft_cap is inf (expected 0 for none, or a positive number in the range of float64)"},
      {with({.soft_cap = 1e-50}, DType::float32),
       "attention: soft_cap is 1e-50 (expected 0 for none, or a positive number in the range of float32)"},
      {with({.dropout = -0.1}), "attention: dropout is -0.1 (expected 0..1)"},
      {with({.dropout = 1.5}), "attention: dropout is 1.5 (expected 0..1)"},
      {with({.dropout = kNaN}), "attention: dropout is nan (expected 0..1)"},
      {with({.key_lengths = {3}}), "attention: key_lengths has 1 numbers for 2 sequences (expected one each, or none at all)"},
      {with({.key_lengths = {3, 4}}), "attention: key_lengths[1] is 4, k has 3 rows there (expected 0 to 3)"},
      {nested_with({.key_lengths = {-1, 2}}), "attention: key_lengths[0] is -1, k has 2 rows there (expected 0 to 2)"},
  });
}

TEST(AttentionBadInput, Bias) {
  expect_refusals({
      {with({.bias = x({3, 3})}),
       "attention: bias has shape [3, 3] (expected 4 dims: batch, heads, rows, keys; 1 where it is broadcast)"},
      {with({.bias = x({3, 1, 3, 3})}), "attention: bias has shape [3, 1, 3, 3]; dim 0 must be 1 or exactly 2"},
      {with({.bias = x({2, 3, 3, 3})}), "attention: bias has shape [2, 3, 3, 3]; dim 1 must be 1 or exactly 4"},
      {with({.bias = x({2, 4, 2, 3})}), "attention: bias has shape [2, 4, 2, 3]; dim 2 must be 1 or at least 3"},
      {with({.bias = x({2, 4, 4, 3})}), "attention: bias has shape [2, 4, 4, 3]; dim 2 must be 1 or 3"},
      {with({.bias = x({1, 1, 1, 5}), .key_lengths = {2, 1}}), "attention: bias has shape [1, 1, 1, 5]; dim 3 must be 1 or 3"},
      {nested_with({.bias = x({2, 4, 3, 2})}), "attention: bias has shape [2, 4, 3, 2]; dim 3 must be 1 or at least 3"},
      {with({.bias = x({1, 1, 3, 3}, DType::float32)}), "attention: bias is float32 (expected float64, as q)"},
      {with({.bias = x({1, 1, 3, 3})}, DType::bfloat16), "attention: bias is float64 (expected bfloat16, as q)"},
      {with({.bias = elsewhere({1, 1, 3, 3})}), on_two_devices("bias")},
      {nested_with({.bias = x({1, 1, 1, 1}), .ragged_bias = planes({2, 2, 3, 3})}),
       "attention: both bias and ragged_bias are given (expected one of them)"},
      {nested_with({.ragged_bias = ragged({2, 3}, {3})}),
       "attention: ragged_bias has 1 ragged dims and 3 dims in all (expected [B, M_b, N_b], two of them ragged)"},
      {nested_with({.ragged_bias = planes({2, 2})}), "attention: ragged_bias has 1 planes for 2 sequences (expected one each)"},
      {nested_with({.ragged_bias = planes({2, 2, 3, 2})}),
       "attention: ragged_bias[1] is 3 x 2 (expected the sequence's rows x keys, 3 x 3)"},
      {nested_with({.ragged_bias = planes({2, 2, 3, 3}), .key_lengths = {2, 1}}),
       "attention: ragged_bias[1] is 3 x 3 (expected the sequence's rows x keys, 3 x 1)"},
      {nested_with({.ragged_bias = planes({2, 2, 3, 3}, DType::float32)}),
       "attention: ragged_bias is float32 (expected float64, as q)"},
  });
}

TEST(AttentionBadInput, NumbersByHead) {
  const DType float32 = DType::float32;
  expect_refusals({
      {with({.slopes = x({3})}), "attention: slopes has shape [3] (expected [H] for 4 heads)"},
      {with({.slopes = x({4, 1})}), "attention: slopes has shape [4, 1] (expected [H] for 4 heads)"},
      {with({.slopes = x({4}, float32)}), "attention: slopes is float32 (expected float64 beside float64 inputs)"},
      {with({.slopes = x({4}, DType::bfloat16)}, DType::bfloat16),
       "attention: slopes is bfloat16 (expected float32 beside bfloat16 inputs)"},
      {with({.slopes = elsewhere({4})}), on_two_devices("slopes")},
      {with({.sinks = x({1})}), "attention: sinks has shape [1] (expected [H] for 4 heads)"},
      {with({.sinks = x({4})}, float32), "attention: sinks is float64 (expected float32 beside float32 inputs)"},
      {with({.table = x({4})}), "attention: table has shape [4] (expected [H, 2 R + 1] for 4 heads)"},
      {with({.table = x({1, 5})}), "attention: table has shape [1, 5] (expected [H, 2 R + 1] for 4 heads)"},
      {with({.table = x({4, 0})}), "attention: table has 0 columns (expected an odd number, 2 R + 1)"},
      {with({.table = x({4, 2})}), "attention: table has 2 columns (expected an odd number, 2 R + 1)"},
      {with({.table = zeros({4, 5}, DType::int64)}), "attention: table is int64 (expected float64 beside float64 inputs)"},
  });
}

TEST(AttentionBadInput, Masks) {
  const auto ids = [](Ints sizes, DType dtype = DType::int64) { return zeros(sizes, dtype); };
  const auto masked = [](const AttentionMask& mask) { return with({.mask = mask}); };
  const AttentionMask mixed = masks::causal() && masks::window<Alignment::top_left>(1, 1);
  expect_refusals({
      {[] { masks::boolean({}); }, "masks::boolean: the mask is undefined (expected bool [batch, heads, rows, keys])"},
      {[] {
         masks::boolean(x({1, 1, 3, 3}));
       },
       "masks::boolean: the mask is float64 (expected bool; an additive mask goes into AttentionOptions::bias)"},
      {[&] {
         masks::boolean(ids({3, 3}, DType::bool_));
       },
       "masks::boolean: the mask has shape [3, 3] (expected 4 dims: batch, heads, rows, keys; 1 where it is broadcast)"},
      {masked(masks::boolean(ids({2, 4, 3, 2}, DType::bool_))),
       "attention: masks::boolean has shape [2, 4, 3, 2]; dim 3 must be 1 or at least 3"},
      {masked(!masks::boolean(ids({1, 1, 3, 4}, DType::bool_)) || masks::causal()),
       "attention: masks::boolean has shape [1, 1, 3, 4]; dim 3 must be 1 or 3"},
      {masked(!masks::boolean(ids({3, 1, 1, 3}, DType::bool_)) || masks::causal()),
       "attention: masks::boolean has shape [3, 1, 1, 3]; dim 0 must be 1 or exactly 2"},
      {masked(masks::boolean(ids({2, 2, 3, 3}, DType::bool_))),
       "attention: masks::boolean has shape [2, 2, 3, 3]; dim 1 must be 1 or exactly 4"},
      {[] { masks::prefix(-2); }, "masks::prefix: a prefix of -2 keys (expected 0 or more)"},
      {[] {
         masks::prefix_lm(std::vector<int64_t>{1, -3});
       },
       "masks::prefix: a prefix of -3 keys (expected 0 or more)"},
      {masked(masks::prefix(std::vector<int64_t>{1, 2, 3})),
       "attention: masks::prefix has 3 numbers for 2 sequences (expected one, or one each)"},
      {masked(masks::prefix(std::vector<int64_t>{})),
       "attention: masks::prefix has 0 numbers for 2 sequences (expected one, or one each)"},
      {[] { masks::documents(Tensor()); }, "masks::documents: the ids are undefined (expected int64 ids [sequences, rows])"},
      {[] { masks::documents(NestedTensor()); },
       "masks::documents: the ids are undefined (expected int64 ids [sequences, rows])"},
      {[&] {
         masks::documents(ids({2, 3}, DType::int32));
       },
       "masks::documents: ids are int32 (expected int64)"},
      {[&] { masks::documents(ids({6})); }, "masks::documents: ids have shape [6] (expected [sequences, rows])"},
      {[&] {
         masks::documents(NestedTensor(ids({2, 3}), Ragged()));
       },
       "masks::documents: ids have 2 dims, 0 of them ragged (expected [sequences, rows], the rows ragged)"},
      {masked(masks::documents(ids({2, 4}))),
       "attention: masks::documents has ids for 2 components of lengths [4, 4], q has 2 components of lengths [3, 3]"},
      {masked(masks::documents(ids({2, 3}), ids({2, 2}))),
       "attention: masks::documents has ids for 2 components of lengths [2, 2], k has 2 components of lengths [3, 3]"},
      {with({.mask = mixed, .slopes = x({4})}),
       "attention: the mask has parts of both alignments, so slopes has no one distance to go by; align all parts alike"},
      {with({.mask = mixed, .table = x({4, 3})}),
       "attention: the mask has parts of both alignments, so table has no one distance to go by; align all parts alike"},
  });
}

TEST(AttentionBadInput, SequencesThatNoKernelCanCount) {
  const int64_t rows[] = {0, 1}, keys[] = {0, int64_t{1} << 31};
  AttentionRequest request;
  request.problem.sequences = request.problem.heads = request.problem.kv_heads = request.problem.head_dim =
      request.problem.value_dim = 1;
  request.problem.q_offsets = rows;
  request.problem.k_offsets = keys;
  const std::string message = error_of([&] { choose_attention_kernel(request, "cpu"); });
  EXPECT_NE(message.find("\n  fused: sequence 0 has 1 rows and 2147483648 keys (serves up to 2147418112)"), std::string::npos)
      << message;
}

TEST(AttentionBadInput, NothingIsLeftBehind) {
  Generator generator(3);
  EXPECT_EQ(error_of(with({.dropout = 0.5, .generator = &generator, .key_lengths = {9, 9}})).substr(0, 28),
            "attention: key_lengths[0] is");
  EXPECT_EQ(generator.offset(), 0u);
}

// Unusual but valid arguments are accepted.

TEST(AttentionOddInput, AScaleOfZeroIsTheMeanOfTheValues) {
  const Tensor q = x({1, 2, 1, 3}), v = x({1, 5, 1, 4});
  for (const AttentionOptions& options : {AttentionOptions{.scale = 0.0}, AttentionOptions{.scale = -0.0}}) {
    const Tensor out = attention(q, x({1, 5, 1, 3}), v, options);
    for (int64_t i = 0; i < 2; ++i) expect_close(out[0][i], mean(v[0], {0}), 1e-14, 1e-13);
  }
}

TEST(AttentionOddInput, ANegativeScaleIsThatOfNegativeQueries) {
  const Tensor q = x({1, 2, 1, 3}), k = x({1, 5, 1, 3});
  expect_close(attention(q, k, k, {.scale = -0.7}), attention(neg(q), k, k, {.scale = 0.7}), 1e-14, 1e-13);
}

TEST(AttentionOddInput, OptionsWithoutEffectAreFine) {
  Generator generator(3);
  const Tensor d = x({2, 3, 4, 8});
  testing::expect_equal(attention(d, d, d, {.bias_before_cap = true, .generator = &generator, .key_lengths = {3, 3}}),
                        attention(d, d, d));
  EXPECT_EQ(generator.offset(), 0u);
  const Tensor none = x({0, 3, 4, 8});
  EXPECT_EQ(attention(none, none, none, {.bias = x({1, 1, 3, 3})}).numel(), 0);
}

}  // namespace
}  // namespace deckle
