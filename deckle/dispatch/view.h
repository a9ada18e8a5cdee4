#pragma once

#include <vector>

#include "deckle/core/ragged_shape.h"
#include "deckle/core/tensor.h"
#include "deckle/kernels/args/view.h"

namespace deckle::dispatch {

/// What a kernel sees of a tensor; an undefined tensor gives a View that is not defined.
View view(const Tensor& tensor);

std::vector<View> views(TensorList tensors);

/// Makes `view` one of rows that repeat: dim 0 goes through a table (View::table). For kernels that read it.
void repeat_rows(View& view, const Ragged& ragged);

/// What a kernel on `device` sees of a defined Ragged; valid as long as that lives.
RaggedView view(const Ragged& ragged, Device device);

}  // namespace deckle::dispatch
