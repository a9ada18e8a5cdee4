#include "deckle/nested/support.h"

#include <fmt/format.h>

#include <ostream>
#include <sstream>

#include "deckle/autograd/autocast.h"
#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/nested/capacity.h"

namespace deckle {

namespace nested {

namespace {

Device device_of(const NestedTensor& x) { return x.defined() ? x.values().device() : Device(); }

}  // namespace

OnDeviceOf::OnDeviceOf(const NestedTensor& x) : OnDevice(device_of(x)) {}
OnDeviceOf::OnDeviceOf(const std::vector<NestedTensor>& x) : OnDevice(x.empty() ? Device() : device_of(x[0])) {}

int64_t wrap_dim(int64_t dim, const NestedTensor& x) {
  const int64_t rank = x.dim();
  check(dim >= -rank && dim < rank, "dim {} is out of range for shape {} (expected {}..{})", dim, ShapeOf{x}, -rank, rank - 1);
  return dim < 0 ? dim + rank : dim;
}

int64_t values_dim(int64_t dim, const NestedTensor& x) {
  dim = wrap_dim(dim, x);
  check(dim > x.ragged_dims() || x.ragged_dims() == 0, "dim {} is {} in shape {} (expected a regular dim, {}..{})", dim,
        dim == 0 ? "the batch" : "ragged", ShapeOf{x}, x.ragged_dims() + 1, x.dim() - 1);
  return dim - x.ragged_dims();
}

int64_t wrap_new_dim(int64_t dim, const NestedTensor& x) {
  const int64_t places = x.dim() + 1;
  check(dim >= -places && dim < places, "dim {} is out of range for a new dim of shape {} (expected {}..{})", dim, ShapeOf{x},
        -places, places - 1);
  return dim < 0 ? dim + places : dim;
}

namespace {

/// `dim` is one of `dims` many, of which x's ragged ones follow the batch.
void refuse(int64_t dim, int64_t dims, std::string_view what, const NestedTensor& x, const Refused& refused) {
  struct Kind {
    std::string_view name;
    int64_t first, last;
    const char* reason;
  };
  const int64_t ragged_dims = x.ragged_dims();
  const Kind kinds[] = {{"the batch", 0, 0, refused.batch},
                        {"a ragged dim", 1, ragged_dims, refused.ragged},
                        {"a regular dim", ragged_dims + 1, dims - 1, refused.regular}};
  std::string accepted;
  for (const Kind& kind : kinds) {
    if (kind.reason != nullptr || kind.first > kind.last) continue;
    accepted += fmt::format("{}{}, {}", accepted.empty() ? "" : ", or ", kind.name, kind.first);
    if (kind.last > kind.first) accepted += fmt::format("..{}", kind.last);
  }
  for (const Kind& kind : kinds) {
    if (kind.reason == nullptr || dim < kind.first || dim > kind.last) continue;
    fail("{} {} is {} of shape {} (expected {}): {}", what, dim, kind.name, ShapeOf{x},
         accepted.empty() ? "a shape with more dims" : accepted, kind.reason);
  }
}

}  // namespace

void refuse_dim(int64_t dim, const NestedTensor& x, const Refused& refused) {
  refuse(wrap_dim(dim, x), x.dim(), "dim", x, refused);
}

void refuse_new_dim(int64_t dim, const NestedTensor& x, const Refused& refused) {
  refuse(wrap_new_dim(dim, x), x.dim() + 1, "new dim", x, refused);
}

void refuse_new_dim(int64_t dim, const std::vector<NestedTensor>& x, const Refused& refused) {
  if (!x.empty()) refuse_new_dim(dim, x[0], refused);
}

Dims values_dims(IntSpan dims, const NestedTensor& x) {
  Dims result;
  for (const int64_t dim : dims) result.push_back(values_dim(dim, x));
  return result;
}

const Tensor& whole(const NestedTensor& x) {
  if (x.ragged().defined()) static_cast<void>(x.ragged()->offsets());
  return x.values();
}

void require_floating(const NestedTensor& x, std::string_view argument) {
  check(is_floating(x.dtype()), "{} is {} (expected a floating dtype)", argument, name(x.dtype()));
}

void require_regular_dim(const NestedTensor& x) {
  check(x.values().dim() > 1, "the last dim of shape {} is {} (expected a regular dim after the ragged ones)", ShapeOf{x},
        x.ragged_dims() > 0 ? "ragged" : "the batch");
}

void require_same_ragged(const Ragged& self, const Ragged& other, std::string_view first, std::string_view second) {
  if (self == other) return;
  check(!on_device_alone(self) || !on_device_alone(other),
        "{} lies in one RaggedCapacity, {} in another (expected both in one: NestedTensor(values, room.ragged()))", first,
        second);
  std::string where;
  if (self.defined() && other.defined() && !on_device_alone(self) && !on_device_alone(other) &&
      self->components() == other->components() && self->ragged_dims() == other->ragged_dims()) {
    for (int64_t b = 0; b < self->components() && where.empty(); ++b) {
      for (int dim = 0; dim < self->ragged_dims(); ++dim) {
        if (self->size(b, dim) != other->size(b, dim)) where = fmt::format(" (component {})", b);
      }
    }
  }
  fail("ragged shapes differ: {} has {}, {} has {}{}", first, to_string(self), second, to_string(other), where);
}

NestedTensor convert(const NestedTensor& x, const autograd::Converted& as) {
  const Tensor values = x.defined() ? as(x.values()) : Tensor();
  return values.is_same(x.values()) ? x : NestedTensor::of_op(values, x);
}

std::vector<NestedTensor> convert(const std::vector<NestedTensor>& x, const autograd::Converted& as) {
  std::vector<NestedTensor> result;
  for (const NestedTensor& one : x) result.push_back(convert(one, as));
  return result;
}

std::string shape_string(const Ragged& ragged, IntSpan values_sizes) {
  if (!ragged.defined()) return to_string(values_sizes);
  std::string text = fmt::format("[{}", ragged->components());
  if (on_device_alone(ragged)) text += fmt::format(", ..{}", longest(ragged));
  for (int dim = 0; !on_device_alone(ragged) && dim < ragged->ragged_dims(); ++dim) {
    const int64_t smallest = ragged->min_size(dim), largest = ragged->max_size(dim);
    text += smallest == largest ? fmt::format(", {}", largest) : fmt::format(", {}..{}", smallest, largest);
  }
  for (const int64_t size : values_sizes.subspan(1)) text += fmt::format(", {}", size);
  return text + "]";
}

std::string shape_string(const NestedTensor& x) {
  return x.defined() ? shape_string(x.ragged(), x.values().sizes()) : "undefined";
}

}  // namespace nested

Operand operand_of(std::string_view name, const NestedTensor& x) {
  if (!x.defined()) return {std::string(name), ""};
  const Tensor& values = x.values();
  return {std::string(name), nested::shape_string(x), to_string(values.sizes()), {{values.impl(), values.storage().get()}}};
}

std::string to_string(const NestedTensor& x) {
  if (!x.defined()) return "NestedTensor(undefined)";
  if (!x.ragged().defined()) return fmt::format("NestedTensor{} {}, none ragged", to_string(x.values().sizes()), name(x.dtype()));
  if (nested::on_device_alone(x.ragged()))
    return fmt::format("NestedTensor{} {}, {}", nested::shape_string(x), name(x.dtype()), to_string(x.ragged()));
  std::string text = fmt::format("NestedTensor[{}", x.components());
  for (int dim = 0; dim < x.ragged_dims(); ++dim) {
    int64_t total = 0;
    for (int64_t b = 0; b < x.components(); ++b) total += x.ragged()->size(b, dim);
    const int64_t mean = x.components() == 0 ? 0 : (total + x.components() / 2) / x.components();
    text += fmt::format(", {}..{} (mean {})", x.ragged()->min_size(dim), x.ragged()->max_size(dim), mean);
  }
  for (int64_t dim = 1; dim < x.values().dim(); ++dim) text += fmt::format(", {}", x.values().size(dim));
  return text + fmt::format("] {}, {} rows", name(x.dtype()), with_commas(x.values().size(0)));
}

std::ostream& operator<<(std::ostream& stream, const NestedTensor& x) {
  constexpr int64_t kEdge = 2;  // components shown at each end
  stream << to_string(x);
  if (!x.defined() || nested::on_device_alone(x.ragged())) return stream;
  for (int64_t b = 0; b < x.components(); ++b) {
    if (b == kEdge && x.components() > 2 * kEdge) {
      stream << "\n...";
      b = x.components() - kEdge;
    }
    stream << "\n" << b << ": " << to_string(x[b]);
  }
  return stream;
}

}  // namespace deckle

fmt::format_context::iterator fmt::formatter<deckle::NestedTensor>::format(const deckle::NestedTensor& tensor,
                                                                           format_context& context) const {
  std::ostringstream text;
  text << tensor;
  return fmt::format_to(context.out(), "{}", text.str());
}
