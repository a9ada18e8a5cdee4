#include "tools/deckle/graphed_step.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "deckle/autograd/autocast.h"
#include "deckle/core/factory_device.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/on_device.h"
#include "deckle/optim/clip.h"

namespace deckle::cli {

GraphedStep::GraphedStep(const nn::DecoderLM& model, optim::AdamW& optimizer, const Options& options)
    : model_(model), optimizer_(optimizer), options_(options), failed_(zeros({1}, DType::bool_, model.device())) {
  optimizer_.count_on_device(failed_);
  make_room(std::max<int64_t>(options.texts, 16));
}

void GraphedStep::make_room(int64_t texts) {
  graph_.reset();
  rooms_.clear();
  warm_ = false;
  options_.texts = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(texts)));
  // A token is predicted after each row but a text's last.
  const int64_t rows = std::max(options_.tokens + options_.texts, options_.longest);
  for (int64_t i = 0; i < options_.batches; ++i)
    rooms_.emplace_back(RaggedCapacity::Room{options_.texts, rows, options_.longest}, model_.device());
  batches_ = zeros({options_.batches, options_.texts + rows}, DType::int64, model_.device());
}

void GraphedStep::load(std::span<const NestedTensor> batches) {
  const Tensor host = zeros(batches_.sizes(), DType::int64, Device());
  for (size_t i = 0; i < batches.size(); ++i) {
    const std::span<const int64_t> lengths = batches[i].ragged()->sizes();
    int64_t* const row = host.data<int64_t>() + static_cast<int64_t>(i) * host.stride(0);
    std::copy(lengths.begin(), lengths.end(), row);
    const int64_t* const tokens = batches[i].values().data<int64_t>();
    std::copy(tokens, tokens + batches[i].ragged()->rows(), row + options_.texts);
  }
  batches_.copy_(host);
}

void GraphedStep::work() {
  optimizer_.zero_grad();
  const Tensor lengths = slice(batches_, 1, 0, options_.texts);
  const Tensor predicted = to(sum(clamp_min(lengths - 1, 0), {1}), DType::float64);
  const Tensor shares = to(predicted / sum(predicted), DType::float32);
  std::vector<Tensor> read;
  for (size_t i = 0; i < rooms_.size(); ++i) {
    const auto batch = static_cast<int64_t>(i);
    rooms_[i].set_lengths(select(lengths, 0, batch));
    const Tensor tokens = slice(select(batches_, 0, batch), 0, options_.texts, batches_.size(1));
    Tensor loss;
    {
      const Autocast scope(options_.autocast);
      loss = model_.loss(NestedTensor(tokens, rooms_[i].ragged()));
    }
    loss = loss * select(shares, 0, batch);
    loss.backward();
    read.push_back(to(reshape(loss.detach(), {1}), DType::float64));
  }
  read.push_back(reshape(optim::clip_gradient_norm_on_device(model_.parameters(), options_.clip), {1}));
  result_ = cat(read);
  failed_.copy_(reshape(any(logical_not(isfinite(result_))), {1}));
  optimizer_.step();
}

StepResult GraphedStep::run(std::span<const NestedTensor> batches, double lr) {
  const auto texts = [](const NestedTensor& batch) { return batch.components(); };
  const int64_t most = std::ranges::max(batches, {}, texts).components();
  if (most > options_.texts) make_room(most);
  load(batches);
  optimizer_.set_lr(lr);
  if (!warm_) {
    work();  // makes what a graph takes for granted
    warm_ = true;
  } else {
    if (!graph_) graph_.emplace(model_.device(), [this] { work(); });
    graph_->replay();
  }
  ++steps_;
  const std::vector<double> values = result_.to_vector();  // the one time in a step that the host waits for the device
  return {std::accumulate(values.begin(), values.end() - 1, 0.0), values.back()};
}

}  // namespace deckle::cli
