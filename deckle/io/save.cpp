#include "deckle/io/save.h"

#include "deckle/base/check.h"
#include "deckle/core/shown.h"

namespace deckle::io {
namespace {

const Tensor& find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  check(found != tensors.end(), "has no tensor \"{}\" (expected one)", name);
  return found->second;
}

bool is_parameter(const Tensor& target) { return target.defined() && target.requires_grad() && target.is_leaf(); }

/// `loaded`, or a parameter that now holds its values.
Tensor into(const Tensor& target, const Tensor& loaded) {
  if (!is_parameter(target)) return loaded;
  check(loaded.sizes() == target.sizes() && loaded.dtype() == target.dtype(),
        "the file has {} {} for a parameter of {} {} (expected the same)", loaded.sizes(), name(loaded.dtype()), target.sizes(),
        name(target.dtype()));
  target.detach().copy_(loaded);
  return target;
}

}  // namespace

namespace detail {

TensorMap number_leaves(const std::vector<Tensor>& leaves) {
  TensorMap tensors;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].defined()) tensors[std::to_string(i)] = leaves[i].detach();
  }
  return tensors;
}

std::vector<Tensor> from_numbered(const TensorMap& tensors, const std::vector<Tensor>& like,
                                  const std::filesystem::path& path) try {
  std::vector<Tensor> leaves(like.size());
  size_t found = 0;
  for (size_t i = 0; i < like.size(); ++i) {
    const auto tensor = tensors.find(std::to_string(i));
    if (tensor == tensors.end()) continue;
    ++found;
    leaves[i] = tensor->second;
    if (!like[i].defined()) continue;
    check(leaves[i].sizes() == like[i].sizes() && leaves[i].dtype() == like[i].dtype(), "tensor {} is {} {} (expected {} {})", i,
          leaves[i].sizes(), name(leaves[i].dtype()), like[i].sizes(), name(like[i].dtype()));
  }
  check(found == tensors.size(), "has {} tensors (expected {} at most, named by their numbers)", tensors.size(), like.size());
  for (size_t i = 0; i < like.size(); ++i) {
    if (leaves[i].defined()) leaves[i] = into(like[i], leaves[i]);
  }
  return leaves;
} catch (...) {
  rethrow_from(path.string());
}

}  // namespace detail

void save(const Tensor& value, const std::filesystem::path& path) { save(TensorMap{{"tensor", value.detach()}}, path); }
void load(Tensor& value, const std::filesystem::path& path) {
  call_as(path.string(), [&] { value = into(value, find(load(path), "tensor")); });
}

void save(const NestedTensor& value, const std::filesystem::path& path) {
  save(TensorMap{{"values", value.values().detach()}, {"lengths", value.lengths()}}, path);
}
void load(NestedTensor& value, const std::filesystem::path& path) try {
  const TensorMap tensors = load(path);
  const auto loaded = NestedTensor::from_lengths(find(tensors, "values"), find(tensors, "lengths"));
  if (!is_parameter(value.values())) {
    value = loaded;
    return;
  }
  check(value.ragged_dims() == 1 && value.lengths().equal(loaded.lengths()),
        "the file has lengths {} for a parameter of other ones (expected the same)", Shown{loaded.lengths()});
  into(value.values(), loaded.values());
} catch (...) {
  rethrow_from(path.string());
}

}  // namespace deckle::io
