#include "deckle/io/batches.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "deckle/base/check.h"
#include "deckle/base/philox.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::io {

namespace {

/// Fisher-Yates with one Philox block per step; a pure function of seed and epoch.
void shuffle(std::vector<int64_t>& items, uint64_t seed, int64_t epoch) {
  const PhiloxStream stream{seed, static_cast<uint64_t>(epoch) << 40};
  for (size_t i = items.size(); i > 1; --i) {
    const auto words = stream.block(i);
    const uint64_t random = (uint64_t{words[1]} << 32) | words[0];
    const auto j = static_cast<size_t>((static_cast<unsigned __int128>(random) * i) >> 64);
    std::swap(items[i - 1], items[j]);
  }
}

}  // namespace

NestedTensor make_text_batch(const TextStore& store, std::span<const int64_t> texts) try {
  std::vector<int64_t> lengths;
  lengths.reserve(texts.size());
  for (const int64_t text : texts) lengths.push_back(static_cast<int64_t>(store[text].size()) + 2);
  const Ragged ragged = Ragged::from_lengths(lengths);
  const Tensor values = empty({ragged->rows()}, DType::int64);
  auto* token = values.data<int64_t>();
  for (const int64_t text : texts) {
    *token++ = kTextBoundary;
    for (const char byte : store[text]) *token++ = static_cast<unsigned char>(byte);
    *token++ = kTextBoundary;
  }
  return NestedTensor(values, ragged);
} catch (...) {
  rethrow_from("make_text_batch");
}

namespace {

/// Makes the batches of a data set, one after another.
struct BatchMaker {
  const TextStore& store;
  const std::vector<int64_t>& items;
  const BatchOptions& options;
  BatchPosition at = options.start;
  std::vector<int64_t> order = {};  // of the epoch that it is in; empty: not made yet

  std::optional<TextBatch> next() {
    for (; !items.empty() && (options.epochs == 0 || at.epoch < options.epochs); at = {at.epoch + 1, 0}) {
      if (order.empty()) {
        order = items;
        if (options.shuffle) shuffle(order, options.seed, at.epoch);
      }
      if (at.text < std::ssize(order)) return take();
      order.clear();
    }
    return std::nullopt;
  }

 private:
  TextBatch take() {
    const auto first = static_cast<size_t>(at.text);
    size_t last = first;
    for (int64_t left = options.tokens; last < order.size(); ++last) {
      left -= static_cast<int64_t>(store[order[last]].size()) + 1;
      if (left < 0 && last > first) break;
    }
    NestedTensor tokens = make_text_batch(store, std::span(order).subspan(first, last - first));
    at.text = static_cast<int64_t>(last);
    return {std::move(tokens), at};
  }
};

}  // namespace

struct Batches::Producer {
  Producer(std::shared_ptr<const TextStore> texts, std::vector<int64_t> chosen, const BatchOptions& how)
      : store(std::move(texts)), items(std::move(chosen)), options(how) {
    check(options.tokens >= 1, "BatchOptions.tokens is {} (expected 1 or more)", options.tokens);
    check(options.ahead >= 1, "BatchOptions.ahead is {} (expected 1 or more)", options.ahead);
    check(options.epochs >= 0, "BatchOptions.epochs is {} (expected 0 or more)", options.epochs);
    const BatchPosition start = options.start;
    check(start.epoch >= 0 && start.text >= 0 && start.text <= static_cast<int64_t>(items.size()),
          "BatchOptions.start is text {} of epoch {} (expected 0 to {}, of epoch 0 or later)", start.text, start.epoch,
          items.size());
    worker = std::thread([this] { produce(); });
  }

  ~Producer() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_one();
    worker.join();
  }

  void produce() {
    try {
      BatchMaker maker{*store, items, options};
      while (std::optional<TextBatch> batch = maker.next()) {
        if (!push(std::move(*batch))) return;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    finished = true;
    filled.notify_one();
  }

  bool push(TextBatch batch) {
    std::unique_lock lock(mutex);
    room.wait(lock, [&] { return stop || static_cast<int>(ready.size()) < options.ahead; });
    if (stop) return false;
    ready.push_back(std::move(batch));
    filled.notify_one();
    return true;
  }

  std::optional<TextBatch> pop() {
    std::unique_lock lock(mutex);
    filled.wait(lock, [&] { return !ready.empty() || finished; });
    if (ready.empty()) {
      if (failure) std::rethrow_exception(failure);
      return std::nullopt;
    }
    TextBatch batch = std::move(ready.front());
    ready.pop_front();
    room.notify_one();
    rest.at = batch.next;
    return batch;
  }

  /// A child of fork has no worker, and may have what it shared with it half changed.
  bool in_child_of_fork() const { return getpid() != process; }

  const std::shared_ptr<const TextStore> store;
  const std::vector<int64_t> items;
  const BatchOptions options;
  const pid_t process = getpid();
  BatchMaker rest{*store, items, options};  // makes those not taken yet, in children of fork

  std::mutex mutex;
  std::condition_variable filled;
  std::condition_variable room;
  std::deque<TextBatch> ready;
  std::exception_ptr failure;
  bool finished = false;
  bool stop = false;
  std::thread worker;
};

Batches::Batches(std::shared_ptr<const TextStore> store, const std::vector<int64_t>& texts, const BatchOptions& options)
    : producer_(call_as("TextDataset::batches", [&] { return std::make_unique<Producer>(std::move(store), texts, options); })) {}
Batches::~Batches() {
  if (producer_ && producer_->in_child_of_fork()) static_cast<void>(producer_.release());  // it waits for the worker
}
Batches::Batches(Batches&&) noexcept = default;

std::optional<TextBatch> Batches::next() {
  return call_as("Batches::next", [&] { return producer_->in_child_of_fork() ? producer_->rest.next() : producer_->pop(); });
}

}  // namespace deckle::io
