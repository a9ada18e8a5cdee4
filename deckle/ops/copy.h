#pragma once

#include "deckle/core/tensor.h"
#include "deckle/kernels/args/number.h"

namespace deckle::native {

/// Whether both are the same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b);

/// Throws if two elements of `target` may lie in one place (expanded dims, overlapping windows): what to write there has no
/// order.
void check_writable(const Tensor& target);

/// Writes `source`, broadcast and converted, over `target`; both of any strides, on any overlapping memory. Below autograd.
void copy_into(const Tensor& target, const Tensor& source);

/// The same with source's elements in reverse order along `dims`; of equal sizes, on different memory of a CPU.
void copy_reversed(const Tensor& target, const Tensor& source, IntSpan dims);

/// `value` as kernels write it into tensors of `dtype`: rounded once; an Error where an integer dtype has no such value.
Number number_for(const Scalar& value, DType dtype);

/// Writes `value` everywhere. Below autograd.
void fill(const Tensor& target, const Scalar& value);

/// The same elements on a device: `source` itself if it is there, else a contiguous copy. Below autograd.
Tensor move_to(const Tensor& source, Device device);

/// What the host has made, where factories make their tensors: the tensor itself on the CPU. Below autograd.
Tensor upload(const Tensor& made);

/// The elements on the host, contiguous: of a tensor on a GPU a copy, which waits for it. Below autograd.
Tensor on_host(const Tensor& source);

/// A new contiguous tensor with the elements of `source` in `dtype`.
Tensor copy_as(const Tensor& source, DType dtype);

/// Whether the elements lie without gaps, each in a place of its own, in another order of dims than the row-major one.
bool is_permuted(const Tensor& tensor);

/// A new tensor whose elements lie as those of `like` do, which is permuted.
Tensor empty_permuted(const Tensor& like, DType dtype);

/// `tensor` itself if contiguous, else a copy that is.
Tensor contiguous(const Tensor& tensor);

}  // namespace deckle::native
