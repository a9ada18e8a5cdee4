#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "deckle/core/dims.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/ragged_shape.h"

/// What is made of a ragged shape, and of numbers and other shapes, is kept as long as the shape: an index of rows is made, and
/// uploaded, once.
namespace deckle {

/// What `make` gives when this is first asked for; of each shape the last 32. Thread-safe.
std::shared_ptr<const void> kept(const RaggedShape& shape, std::string_view what, IntSpan numbers, std::span<const Ragged> others,
                                 Device device, const std::function<std::shared_ptr<const void>()>& make);

/// `made` is part of what `shape` keeps. Chains of such shapes end: the 64th keeps nothing.
void note_made_shape(const RaggedShape& shape, const RaggedShape& made);

void drop_kept(const RowMap* map) noexcept;

/// The same where factories make tensors. `what` stands for one type, and holds no `shape` itself.
template <typename Make>
std::invoke_result_t<Make> kept_value(const RaggedShape& shape, std::string_view what, IntSpan numbers, const Make& make,
                                      std::span<const Ragged> others = {}) {
  using Value = std::invoke_result_t<Make>;
  const auto made = [&]() -> std::shared_ptr<const void> { return std::make_shared<const Value>(make()); };
  return *std::static_pointer_cast<const Value>(kept(shape, what, numbers, others, factory_device(), made));
}

/// The same of a shape, whose row map, and copy on a device, is then one, too.
template <typename Make>
Ragged kept_shape(const RaggedShape& shape, std::string_view what, IntSpan numbers, const Make& make,
                  std::span<const Ragged> others = {}) {
  const auto made = [&]() -> std::shared_ptr<const void> {
    const Ragged result = make();
    note_made_shape(shape, *result);
    return result.shared();
  };
  return std::static_pointer_cast<const RaggedShape>(kept(shape, what, numbers, others, {}, made));
}

}  // namespace deckle
