// `calls` of deckle/by_hand.yaml is what the functions record: from it follow the derivatives that `deckle ops explain` shows.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "deckle/autograd/forward_mode.h"
#include "deckle/core/ragged_room.h"
#include "deckle/deckle.h"
#include "deckle/ops/op_table.h"
#include "tests/ops/made_of.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::random_tensor;
using Names = std::set<std::string>;

Tensor leaf(Ints sizes, DType dtype = DType::float64) { return random_tensor(sizes, dtype).requires_grad_(); }

/// [3, ragged, 4] and [2, ragged, ragged, 2].
NestedTensor rows() { return NestedTensor::from_lengths(leaf({6, 4}), {3, 1, 2}); }
NestedTensor images() {
  return {leaf({10, 2}), Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 1, 4}, 2))};
}

/// Two components in four rows, the last of which is spare.
Ragged room() {
  RaggedRoom room{.components = 2, .rows = 4, .longest = 4, .offsets = tensor<int64_t>({0, 1, 3})};
  return Ragged(std::make_shared<const RaggedShape>(std::make_shared<const RaggedRoom>(std::move(room))));
}

/// What a function gives, of whatever kind.
std::vector<Tensor> of(const Tensor& x) { return {x}; }
std::vector<Tensor> of(const NestedTensor& x) { return {x.values()}; }
std::vector<Tensor> of(const std::vector<Tensor>& x) { return x; }
template <typename X>
std::vector<Tensor> of(const std::pair<X, X>& x) {
  return {of(x.first)[0], of(x.second)[0]};
}
template <typename... X>
std::vector<Tensor> of(const X&... x) {
  return {of(x)[0]...};
}

/// Calls of the functions on recorded tensors, several where they have several ways.
using Sample = std::pair<const char*, std::function<std::vector<Tensor>()>>;

std::vector<Sample> samples() {
  const Tensor places = tensor<int64_t>({2, 0});
  const auto heads = [] { return leaf({2, 3, 2, 4}); };
  const auto ragged_heads = [] { return NestedTensor::from_lengths(leaf({5, 2, 4}), {3, 2}); };
  return {
      {"attention", [=] { return of(attention(heads(), heads(), heads())); }},
      {"attention", [=] { return of(attention(ragged_heads(), ragged_heads(), ragged_heads(), {.mask = masks::causal()})); }},
      {"attention",
       [=] {
         return of(attention(heads(), heads(), heads(), {.bias = leaf({1, 2, 3, 3}), .slopes = leaf({2})}));
       }},
      {"attention_with_lse", [=] { return of(attention_with_lse(heads(), heads(), heads())); }},
      {"attention_with_lse", [=] { return of(attention_with_lse(ragged_heads(), ragged_heads(), ragged_heads())); }},
      {"zero_spare_rows",
       [] {
         return of(nested::zero_spare_rows(leaf({4, 2}), room()));
       }},
      {"to_padded", [] { return of(to_padded(rows(), {})); }},
      {"to_padded",
       [] {
         return of(to_padded(images(), {.side = PadSide::left, .sizes = {4, 4}}));
       }},
      {"padding_mask", [] { return of(padding_mask(rows(), {})); }},
      {"from_padded",
       [] {
         return of(from_padded(leaf({3, 4, 2}), rows().ragged()));
       }},
      {"from_padded",
       [] {
         return of(from_padded(leaf({2, 3, 4, 2}), images().ragged(), PadSide::left));
       }},
      {"from_mask",
       [] {
         return of(from_mask(leaf({2, 2, 3}), tensor({{true, false}, {true, true}})));
       }},
      {"pool", [] { return of(pool(rows(), Pooling::average), pool(rows(), Pooling::max)); }},
      {"pool", [] { return of(pool(rows(), Pooling::first), pool(rows(), Pooling::last)); }},
      {"shift",
       [] {
         return of(shift(rows(), tensor<int64_t>({1, 0, -1}), 1, 2.0), shift(rows(), 1));
       }},
      {"to_jagged", [] { return of(to_jagged(rows()).values); }},
      {"from_jagged",
       [] {
         return of(from_jagged({leaf({5, 2}), tensor<int64_t>({0, 2, 5}), {}}));
       }},
      {"from_jagged",
       [] {
         return of(from_jagged({leaf({5, 2}), tensor<int64_t>({1, 2, 4}), {}}));
       }},
      {"from_jagged",
       [] {
         return of(from_jagged({leaf({5, 2}), tensor<int64_t>({0, 2, 5}), tensor<int64_t>({1, 2})}));
       }},
      {"to_strided", [] { return of(to_strided(rows()).buffer); }},
      {"from_strided",
       [] {
         return of(from_strided(
             {leaf({12}), tensor<int64_t>({{2, 2}, {1, 2}}), tensor<int64_t>({{2, 1}, {4, 2}}), tensor<int64_t>({0, 6})}));
       }},
      {"to_varlen", [] { return of(to_varlen(rows()).values); }},
      {"from_varlen",
       [] {
         return of(from_varlen(leaf({5, 2}), tensor<int32_t>({0, 2, 5})));
       }},
      {"to_arrow", [] { return of(to_arrow(rows()).values); }},
      {"from_arrow",
       [] {
         return of(from_arrow({tensor<int32_t>({1, 2, 4}), leaf({5, 2})}));
       }},
      {"NestedTensor::from_list",
       [] {
         return of(NestedTensor::from_list({leaf({2, 3}), leaf({1, 3})}));
       }},
      {"NestedTensor::of_op",
       [] {
         return of(NestedTensor::of_op(leaf({6, 4}), rows().ragged()));
       }},
      {"NestedTensor::from_lengths", [] { return of(rows()); }},
      {"NestedTensor::from_offsets",
       [] {
         return of(NestedTensor::from_offsets(leaf({5, 2}), tensor<int64_t>({0, 2, 5})));
       }},
      {"NestedTensor::lengths", [] { return of(rows().lengths()); }},
      {"NestedTensor::offsets", [] { return of(rows().offsets()); }},
      {"NestedTensor::values", [] { return of(rows().values()); }},
      {"NestedTensor::grad",
       [] {
         const NestedTensor x = rows();
         backward({sum(x.values())});
         return of(x.grad());
       }},
      {"NestedTensor::unbind", [] { return of(rows().unbind()); }},
      {"NestedTensor::unbind", [] { return of(images().unbind()); }},
      {"NestedTensor::unbind", [] { return of(pool(rows().detach(), Pooling::average).unbind()); }},
      {"NestedTensor::unbind",
       [] {
         return of(NestedTensor(leaf({2, 3}), Ragged()).unbind());
       }},
      {"NestedTensor::dense",
       [] {
         return of(NestedTensor(leaf({2, 3}), Ragged()).dense());
       }},
      {"NestedTensor::operator[]",
       [] {
         return of(rows()[1], images()[1], NestedTensor(leaf({2, 3}), Ragged())[1]);
       }},
      {"matmul",
       [] {
         const NestedTensor x = rows(), y = NestedTensor::from_lengths(leaf({6, 4}), {3, 1, 2});
         return of(matmul(x, y, {.transpose_other = true}), matmul(x, leaf({5, 4}), {.transpose_other = true}));
       }},
      {"Tensor::index",
       [=] {
         return of(leaf({3, 4}).index({places, slice(1)}), leaf({3, 4}).index({slice(0, 2), 1}));
       }},
      {"Tensor::index",
       [=] {
         return of(leaf({3, 4}).index({newaxis, ellipsis, places}));
       }},
      {"Tensor::index",
       [=] {
         return of(leaf({3, 4, 2}).index({places, slice(), tensor<int64_t>({1, 0})}));
       }},
      {"Tensor::index_put",
       [=] {
         return of(leaf({3, 4}).index_put({places}, leaf({2, 4})));
       }},
      {"Tensor::index_put",
       [=] {
         return of(leaf({3, 4}).index_put({slice(), places}, leaf({2}, DType::float32)));
       }},
      {"Tensor::index_put",
       [=] {
         return of(leaf({3, 4}).index_put({1}, leaf({4}), true));
       }},
      {"Tensor::index_put",
       [=] {
         return of(leaf({3, 4}).index_put({newaxis, slice(1), 2}, leaf({2})));
       }},
      {"Tensor::index_put_",
       [=] {
         const Tensor x = random_tensor({3, 4}), y = random_tensor({3, 4}), z = random_tensor({3, 4});
         x.index_put_({places}, leaf({2, 4}));
         y.index_put_({slice(), 1}, leaf({3}, DType::float32));
         z.index_put_({1}, leaf({4}), true);
         return of(x, y, z);
       }},
      {"Tensor::T",
       [] {
         return of(leaf({2, 3}).T());
       }},
      {"Tensor::mT",
       [] {
         return of(leaf({2, 3}).mT());
       }},
      {"Tensor::requires_grad_", [] { return of(random_tensor({2}).requires_grad_()); }},
      {"grad",
       [] {
         const Tensor x = leaf({2});
         return of(grad({x, x}, {x}, {.grad_outputs = {leaf({2}), leaf({2})}, .create_graph = true}));
       }},
      {"backward",
       [] {
         const Tensor x = leaf({2});
         backward({x, x}, {.grad_outputs = {leaf({2}), leaf({2})}, .create_graph = true});
         return of(x.grad());
       }},
      {"autograd::make_dual",
       [] {
         const autograd::LevelScope scope;
         return of(autograd::make_dual(leaf({2}), leaf({2}), scope.level()));
       }},
      {"autograd::primal",
       [] {
         const autograd::LevelScope scope;
         return of(autograd::primal(autograd::make_dual(leaf({2}), leaf({2}), scope.level()), scope.level()));
       }},
      {"autograd::tangent",
       [] {
         const autograd::LevelScope scope;
         return of(autograd::tangent(autograd::make_dual(leaf({2}), leaf({2}), scope.level()), scope.level()));
       }},
      {"nn::rotate",
       [] {
         const Tensor x = leaf({2, 3, 2, 4});
         return of(nn::rotate(x, nn::Rotary(4).angles(x, DType::float64)));
       }},
      {"DecoderLM::loss",
       [] {
         const nn::DecoderLM model({.vocab = 13, .d_model = 16, .depth = 1, .heads = 4, .kv_heads = 2, .hidden = 20});
         return of(model.loss(NestedTensor::from_lengths(tensor<int64_t>({1, 2, 3, 4, 5}), {3, 2})));
       }},
      {"gradient_norms",
       [] {
         Tensor x = leaf({2});
         backward({sum(x * x)}, {.create_graph = true});
         const std::vector<Tensor> results = of(optim::gradient_norms({x}));
         x.set_grad({});  // its graph leads to x, which holds it
         return results;
       }},
      {"clip_gradient_norm_on_device",
       [] {
         Tensor x = leaf({2});
         backward({sum(x * x)}, {.create_graph = true});
         const std::vector<Tensor> results = of(optim::clip_gradient_norm_on_device({x}, 0.1));
         x.set_grad({});  // its graph leads to x, which holds it
         return results;
       }},
      {"nn::parameter", [] { return of(nn::parameter(leaf({2}))); }},
  };
}

/// The recorded ops that a call of `op` stands for: itself, or the parts of a composite, which may be another function of its
/// name.
void collect(const std::string& op, Names& recorded) {
  static const std::regex parts(R"(\(made of ([a-z0-9_, ]+)\))"), word("[a-z0-9_]+");
  for (const OpInfo& info : op_table()) {
    if (info.name != op || !info.because.empty()) continue;
    std::smatch found;
    const std::string derivatives(info.derivatives);
    if (!std::regex_search(derivatives, found, parts)) {
      recorded.insert(op);
      continue;
    }
    const std::string names = found[1];
    for (std::sregex_iterator at(names.begin(), names.end(), word), end; at != end; ++at)
      if (at->str() != op) collect(at->str(), recorded);
  }
}

struct Entry {
  std::string name, signature, calls;
};

std::vector<Entry> entries() {
  std::ifstream file(std::string(DECKLE_SOURCES) + "/by_hand.yaml");
  std::vector<Entry> found;
  std::string line;
  while (std::getline(file, line)) {
    if (const size_t at = line.find("- func: \""); at != std::string::npos) {
      const std::string signature = line.substr(at + 9);
      found.push_back({signature.substr(0, signature.find('(')), signature, ""});
    }
    if (const size_t at = line.find("calls: "); at != std::string::npos && !found.empty())
      found.back().calls = line.substr(at + 7);
  }
  return found;
}

/// Whether a call may record something: it has a tensor, and gives one.
bool may_record(const Entry& entry) {
  const size_t arrow = entry.signature.rfind("->");
  const bool of_tensor = entry.name.find("Tensor::") != std::string::npos;
  return (of_tensor || entry.signature.substr(0, arrow).find("Tensor") != std::string::npos) &&
         entry.signature.find("Tensor", arrow) != std::string::npos;
}

TEST(ByHand, FunctionsCallWhatTheirEntriesName) {
  const std::vector<Sample> all = samples();
  Names sampled;
  for (const Sample& sample : all) sampled.insert(sample.first);
  const std::regex word("[a-z0-9_]+");
  size_t held = 0;
  for (const Entry& entry : entries()) {
    SCOPED_TRACE(entry.name + ", calls: " + entry.calls);
    if (entry.calls == "function" || (entry.calls == "[]" && !may_record(entry))) continue;
    ASSERT_TRUE(sampled.contains(entry.name)) << "no sample calls it";
    suite::Calls calls;
    if (entry.calls.starts_with('['))
      for (std::sregex_iterator at(entry.calls.begin(), entry.calls.end(), word), end; at != end; ++at)
        collect(at->str(), calls[at->str()]);
    suite::MadeOf made(calls);
    for (const auto& [name, call] : all) {
      if (name != entry.name) continue;
      const std::vector<Tensor> results = call();
      made.collect(results);
      if (entry.calls != "values") continue;
      for (const Tensor& result : results) EXPECT_TRUE(result.requires_grad()) << "it does not hand on what it was given";
    }
    made.check();
    ++held;
  }
  EXPECT_GE(held, 40u);
  for (const std::string& name : sampled) {
    bool known = false;
    for (const Entry& entry : entries()) known = known || entry.name == name;
    EXPECT_TRUE(known) << name << " is no function of deckle/by_hand.yaml";
  }
}

}  // namespace
}  // namespace deckle
