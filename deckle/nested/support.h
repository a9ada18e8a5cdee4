#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "deckle/core/factory_device.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::autograd {
class Converted;
}

/// What generated overloads for nested tensors call.
namespace deckle::nested {

/// Factories, and indices of rows, are made where the values of x are; of a list, where those of the first are.
class OnDeviceOf : public OnDevice {
 public:
  explicit OnDeviceOf(const NestedTensor& x);
  explicit OnDeviceOf(const std::vector<NestedTensor>& x);
};

/// `dim` in [0, x.dim()); throws naming the shape.
int64_t wrap_dim(int64_t dim, const NestedTensor& x);

/// The dim of x.values() that holds the regular dim `dim` (wrapped): dim - ragged dims.
int64_t values_dim(int64_t dim, const NestedTensor& x);

/// The place of a new dim, in [0, x.dim()]; throws naming the shape.
int64_t wrap_new_dim(int64_t dim, const NestedTensor& x);

/// Why an op refuses a kind of dim; null: it does not.
struct Refused {
  const char* batch = nullptr;
  const char* ragged = nullptr;
  const char* regular = nullptr;
};

/// Throws if `dim` is of a kind that is refused, with the reason and the dims that would be accepted.
void refuse_dim(int64_t dim, const NestedTensor& x, const Refused& refused);
/// The same for the place of a new dim.
void refuse_new_dim(int64_t dim, const NestedTensor& x, const Refused& refused);
void refuse_new_dim(int64_t dim, const std::vector<NestedTensor>& x, const Refused& refused);

Dims values_dims(IntSpan dims, const NestedTensor& x);

/// The values for an op over all of them: throws if some rows are spare ones of a RaggedCapacity.
const Tensor& whole(const NestedTensor& x);

/// The values for an op that at a row of zeros divides by what `eps` alone keeps from 0: where that is none, the spare rows of a
/// RaggedCapacity are [1, 0, ...] as the op sees them, for in a gradient that is summed over rows 0 times NaN is NaN.
Tensor with_finite_rows(const NestedTensor& x, double eps);

/// Throws, naming the argument, unless x is floating.
void require_floating(const NestedTensor& x, std::string_view argument);

/// Throws unless x has a regular dim, for ops over the last dim: over a ragged one a row would span components.
void require_regular_dim(const NestedTensor& x);

/// Throws unless both are equal; the message gives both under their names, and the first component that differs.
void require_same_ragged(const Ragged& self, const Ragged& other, std::string_view first = "self",
                         std::string_view second = "other");
inline void require_same_ragged(const NestedTensor& self, const NestedTensor& other, std::string_view first = "self",
                                std::string_view second = "other") {
  require_same_ragged(self.ragged(), other.ragged(), first, second);
}

/// In the scope of an Autocast: the operands as the op wants them.
NestedTensor convert(const NestedTensor& x, const autograd::Converted& as);
std::vector<NestedTensor> convert(const std::vector<NestedTensor>& x, const autograd::Converted& as);

/// "[3, 2..9, 4]".
std::string shape_string(const NestedTensor& x);
std::string shape_string(const Ragged& ragged, IntSpan values_sizes);

/// The same as an argument of check(): made only when the message is. What an entry's check calls the sizes.
struct ShapeOf {
  const NestedTensor& x;

  friend bool operator==(const ShapeOf& a, const ShapeOf& b) {
    return a.x.ragged() == b.x.ragged() && IntSpan(a.x.values().sizes()) == IntSpan(b.x.values().sizes());
  }
};

}  // namespace deckle::nested

template <>
struct fmt::formatter<deckle::nested::ShapeOf> : fmt::formatter<std::string_view> {
  auto format(const deckle::nested::ShapeOf& shape, fmt::format_context& context) const {
    return formatter<std::string_view>::format(deckle::nested::shape_string(shape.x), context);
  }
};
