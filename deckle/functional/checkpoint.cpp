#include "deckle/functional/checkpoint.h"

#include <mutex>
#include <optional>

#include "deckle/autograd/autocast.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/draws.h"
#include "deckle/functional/keeping.h"

namespace deckle::functional {

/// One call: how to make it again, and the values of the last time until each was asked for.
class Recomputation::Frame {
 public:
  Frame(std::vector<Tensor> inputs, std::function<void(const std::vector<Tensor>&)> run)
      : run_(std::move(run)), autocast_(autocast_dtype()) {
    for (const Tensor& input : inputs) {
      if (!input.defined()) {
        inputs_.push_back({});
        continue;
      }
      inputs_.push_back({input.detach(), input.requires_grad(), input.version()});
    }
  }

  size_t count() { return saved_++; }
  /// The first call has returned.
  void finish() {
    finished_ = true;
    noted_keeping_.reset();
    noted_.reset();
  }

  Tensor value(size_t index) {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) compute();
    const Tensor result = values_[index];
    check(result.version() == versions_[index],
          "a tensor of shape {} that a checkpointed function saved was changed in place afterwards (version {}, saved at {})",
          result.sizes(), result.version(), versions_[index]);
    if (!asked_[index]) ++asked_for_;
    asked_[index] = true;
    if (asked_for_ == saved_ || !finished_) values_.clear();
    return result;
  }

 private:
  struct Input {
    Tensor tensor;
    bool requires_grad = false;
    uint64_t version = 0;
  };

  void compute() {
    std::vector<Tensor> inputs;
    for (const Input& input : inputs_) {
      inputs.push_back(input.tensor.defined() ? input.tensor.detach() : input.tensor);
      if (!input.tensor.defined()) continue;
      if (input.tensor.version() != input.version) {
        fail(ErrorKind::runtime,
             "an input of shape {} of a checkpointed function was changed in place before the backward (version {}, was {})",
             to_string(input.tensor.sizes()), input.tensor.version(), input.version);
      }
      if (input.requires_grad) inputs.back().requires_grad_();
    }
    std::vector<Tensor> values;
    versions_.clear();
    const RepeatDraws same_numbers(draws_);
    const RepeatKeeping same_graphs(keeping_);
    {
      const EnableGrad recording;
      const Autocast same_dtypes(autocast_);
      const autograd::NoLevels primal;
      const SavedTensorHooks collect(
          [this, &values](const Tensor& tensor) {
            values.push_back(tensor);
            versions_.push_back(tensor.version());
            return std::any(tensor);
          },
          [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
      run_(inputs);
    }
    if (finished_ ? values.size() != saved_ : values.size() < saved_) {
      fail(ErrorKind::runtime,
           "the checkpointed function saved {} tensors when it was called and {} when it was called again (expected the same "
           "each time)",
           saved_, values.size());
    }
    if (!same_numbers.equal() || (finished_ ? same_numbers.asked() != draws_.size() : same_numbers.asked() < draws_.size())) {
      fail(ErrorKind::runtime,
           "the checkpointed function drew random numbers {} times when it was called and {} when it was called again (expected "
           "the same each time, and as many)",
           draws_.size(), same_numbers.asked());
    }
    values_ = std::move(values);
    asked_.assign(values_.size(), false);
    asked_for_ = 0;
  }

  std::vector<Input> inputs_;
  std::function<void(const std::vector<Tensor>&)> run_;
  std::optional<DType> autocast_;
  std::vector<Draw> draws_;                                // of the first call, from whichever generator
  std::optional<NoteDraws> noted_{std::in_place, draws_};  // until it returns
  std::vector<bool> keeping_;                              // of the first call: whether each transform in it kept its graph
  std::optional<NoteKeeping> noted_keeping_{std::in_place, keeping_};
  size_t saved_ = 0;
  bool finished_ = false;  // whether the first call has returned: until then the backward may be one inside it
  std::vector<Tensor> values_;
  std::vector<uint64_t> versions_;  // of values_, when they were saved
  std::vector<bool> asked_;
  size_t asked_for_ = 0;
  std::mutex mutex_;  // a backward may run on any thread
};

Recomputation::Recomputation(std::vector<Tensor> inputs, std::function<void(const std::vector<Tensor>&)> run) {
  if (!grad_enabled()) return;
  frame_ = std::make_shared<Frame>(std::move(inputs), std::move(run));
  const auto frame = frame_;
  hooks_ =
      std::make_unique<SavedTensorHooks>([frame](const Tensor&) { return std::any(frame->count()); },
                                         [frame](const std::any& index) { return frame->value(std::any_cast<size_t>(index)); });
}

Recomputation::~Recomputation() {
  if (frame_) frame_->finish();
}

}  // namespace deckle::functional
