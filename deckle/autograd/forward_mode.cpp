#include "deckle/autograd/forward_mode.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/variable.h"
#include "deckle/autograd/view_layout.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

using detail::OpenLevel;

std::atomic<Level> next_level{1};
thread_local std::vector<OpenLevel> open;

/// Tangents of this level and above are not seen; a limit ends with its level.
Level limit_of(const Tensor& tensor) {
  const Level limit = tensor.impl()->tangent_limit;
  for (const OpenLevel& candidate : open) {
    if (candidate.level == limit) return limit;
  }
  return std::numeric_limits<Level>::max();
}

const Tensor* find(const Tensor& tensor, Level level) {
  if (tensor.impl()->tangents == nullptr) return nullptr;
  for (const auto& [at, value] : tensor.impl()->tangents->values) {
    if (at == level) return &value;
  }
  return nullptr;
}

void store(const Tensor& tensor, Level level, const Tensor& value) {
  check(value.sizes() == tensor.sizes(), "a tangent of shape {} for a tensor of shape {} (expected the same)", value.sizes(),
        tensor.sizes());
  std::shared_ptr<Tangents>& tangents = tensor.impl()->tangents;
  if (tangents == nullptr) tangents = std::make_shared<Tangents>();
  for (auto& [at, present] : tangents->values) {
    if (at == level) {
      present = value;
      return;
    }
  }
  tangents->values.emplace_back(level, value);
  std::sort(tangents->values.begin(), tangents->values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (OpenLevel& candidate : open) {
    if (candidate.level == level) candidate.carriers.push_back(tangents);
  }
}

void erase(const Tensor& tensor, Level level) {
  std::erase_if(tensor.impl()->tangents->values, [&](const auto& entry) { return entry.first == level; });
}

Tensor in_dtype(const Tensor& value, DType dtype) { return value.dtype() == dtype ? value : to(value, dtype); }

}  // namespace

LevelScope::LevelScope() : level_(next_level.fetch_add(1)) { open.push_back({level_, {}}); }

LevelScope::~LevelScope() {
  const OpenLevel closing = std::move(open.back());
  open.pop_back();
  for (const std::weak_ptr<Tangents>& carrier : closing.carriers) {
    if (const std::shared_ptr<Tangents> tangents = carrier.lock()) {
      std::erase_if(tangents->values, [&](const auto& entry) { return entry.first == closing.level; });
    }
  }
}

NoLevels::NoLevels() : hidden_(std::exchange(open, {})) {}
NoLevels::~NoLevels() { open = std::move(hidden_); }

int open_levels() { return static_cast<int>(open.size()); }

void detail::collect_levels(const Tensor& tensor, std::vector<Level>& levels) {
  if (!tensor.defined()) return;
  const Level limit = limit_of(tensor);
  const std::shared_ptr<Tangents>& tangents = base_of(tensor).impl()->tangents;
  if (tangents == nullptr) return;
  for (const auto& [level, value] : tangents->values) {
    if (level < limit) levels.push_back(level);
  }
}

void detail::collect_levels(TensorList tensors, std::vector<Level>& levels) {
  for (const Tensor& tensor : tensors) collect_levels(tensor, levels);
}

std::vector<Level> detail::sorted_unique(std::vector<Level> levels) {
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

bool has_tangent(const Tensor& tensor, Level level) {
  if (!tensor.defined() || level >= limit_of(tensor)) return false;
  return find(base_of(tensor), level) != nullptr;
}

Tensor tangent(const Tensor& tensor, Level level) {
  if (!tensor.defined()) return {};
  if (!has_tangent(tensor, level)) return zeros_raw(tensor.sizes(), tensor.dtype(), tensor.device());
  const Tensor& base = base_of(tensor);
  const Tensor& value = *find(base, level);
  if (base.is_same(tensor)) return value;
  const ViewLayout layout(base, tensor);
  return layout.part(layout.memory_of(value));
}

std::vector<Tensor> tangent(TensorList tensors, Level level) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tangent(tensor, level));
  return result;
}

Tensor primal(const Tensor& tensor, Level level) {
  if (!tensor.defined() || limit_of(tensor) <= level) return tensor;
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->tangent_limit = level;
  return Tensor(std::move(impl));
}

std::vector<Tensor> primal(TensorList tensors, Level level) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(primal(tensor, level));
  return result;
}

Tensor make_dual(const Tensor& tensor, const Tensor& value, Level level) {
  call_as("make_dual", [&] {
    check(is_floating(tensor.dtype()), "a tensor of dtype {} has no tangent (expected a floating dtype)", name(tensor.dtype()));
    check(value.dtype() == tensor.dtype(), "a tangent of dtype {} for a tensor of dtype {} (expected the same)",
          name(value.dtype()), name(tensor.dtype()));
    check(value.device() == tensor.device(), "a tangent on {} for a tensor on {} (expected one device)", value.device(),
          tensor.device());
  });
  const Tensor dual = fresh_variable(tensor);
  store(dual, level, value);
  return dual;
}

void set_tangent(const Tensor& result, Level level, const Tensor& value) {
  if (value.defined() && is_floating(result.dtype())) store(result, level, in_dtype(value, result.dtype()));
}

void update_tangent(const Tensor& self, Level level, const Tensor& value) {
  if (!is_floating(self.dtype())) return;
  const Tensor& base = base_of(self);
  const Tensor* const present = find(base, level);
  if (present == nullptr && !value.defined()) return;
  if (base.is_same(self)) {
    value.defined() ? store(self, level, in_dtype(value, self.dtype())) : erase(self, level);
    return;
  }
  const ViewLayout layout(base, self);
  const Tensor memory =
      layout.memory_of(present != nullptr ? clone(*present) : zeros_raw(base.sizes(), base.dtype(), base.device()));
  const Tensor part = layout.part(memory);
  value.defined() ? copy_(part, value) : zero_(part);
  store(base, level, layout.whole(memory));
}

void drop_tangents(const Tensor& self) {
  for (const Level level : tangent_levels(self)) update_tangent(self, level, {});
}

void leave_base(const Tensor& view) {
  if (base_of(view).is_same(view)) return;
  std::vector<std::pair<Level, Tensor>> own;
  for (const Level level : tangent_levels(view)) own.emplace_back(level, tangent(view, level));
  view.impl()->meta->base = {};
  for (const auto& [level, value] : own) store(view, level, value);
}

}  // namespace deckle::autograd
