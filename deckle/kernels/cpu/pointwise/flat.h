#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/pointwise/driver.h"
#include "deckle/kernels/cpu/simd/blocks.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::pointwise {

inline constexpr int64_t kGrain = 32768;  // elements per parallel range: 10 to 50 us of work
/// Elements per buffer: a handful of them fit in L1.
template <typename T>
inline constexpr int64_t kBlock = sizeof(T) == 2 ? 2048 : 1024;

/// Whether an operand's elements lie one after another as those of the result do.
inline bool same_places(const View& view, const View& result) {
  return view.table == nullptr && view.ndim == result.ndim && std::equal(view.sizes, view.sizes + view.ndim, result.sizes) &&
         view.contiguous();
}

inline bool one_number(const View& view, const View& result) {
  return view.table == nullptr && view.ndim <= result.ndim && view.numel() == 1;
}

/// The operands of an op that runs straight over memory; those of another dtype pass through buffers.
template <typename T>
struct Flat {
  BlockFunction<T> function;
  int inputs = 0, outputs = 0;  // inputs: tensors and numbers
  char* data[kMaxOperands];     // inputs, then outputs
  DType dtypes[kMaxOperands];
  uint8_t is_scalar[kMaxOperands];
  Computed<T> converted[kMaxOperands];  // a number of another dtype
  bool direct = true;

  void operator()(int64_t begin, int64_t end) const {
    if (direct) return run(begin, end, nullptr);
    Scratch scratch;
    T* const buffers = scratch.take<T>((inputs + outputs) * kBlock<T>);
    for (int64_t from = begin; from < end; from += kBlock<T>) run(from, std::min(from + kBlock<T>, end), buffers);
  }

 private:
  void run(int64_t begin, int64_t end, T* buffers) const {
    const T* in[kMaxOperands];
    T* out[kMaxOperands];
    const auto place = [&](int o) { return data[o] + begin * item_size(dtypes[o]); };
    const auto same = [&](int o) { return dtypes[o] == dtype_of<T>; };
    for (int i = 0; i < inputs; ++i) {
      in[i] = is_scalar[i] ? reinterpret_cast<const T*>(data[i])
              : same(i)    ? reinterpret_cast<const T*>(place(i))
                           : buffers + i * kBlock<T>;
      if (!is_scalar[i] && !same(i)) simd::load_run(place(i), dtypes[i], 1, end - begin, buffers + i * kBlock<T>);
    }
    for (int o = inputs; o < inputs + outputs; ++o)
      out[o - inputs] = same(o) ? reinterpret_cast<T*>(place(o)) : buffers + o * kBlock<T>;
    function(end - begin, in, is_scalar, out);
    for (int o = inputs; o < inputs + outputs; ++o) {
      if (!same(o)) simd::store_run(buffers + o * kBlock<T>, end - begin, place(o), dtypes[o], 1);
    }
  }
};

/// Runs over memory if every operand allows it; returns whether it did.
template <typename T>
bool run_flat(BlockFunction<T> function, std::span<const View> inputs, const Computed<T>* numbers, size_t number_count,
              std::span<const View> outputs) {
  const View& result = outputs[0];
  Flat<T> flat;
  flat.function = function;
  const auto add = [&](int& count, const void* data, DType dtype, Input input) {
    const int o = flat.inputs + flat.outputs;
    flat.data[o] = static_cast<char*>(const_cast<void*>(data));
    flat.dtypes[o] = dtype;
    flat.is_scalar[o] = input;
    if (input == kElement && dtype != dtype_of<T>) {
      simd::load_run(data, dtype, 1, 1, &flat.converted[o]);
      flat.data[o] = reinterpret_cast<char*>(&flat.converted[o]);
      flat.is_scalar[o] = kNumber;
    }
    flat.direct = flat.direct && (input != kElements || dtype == dtype_of<T>);
    ++count;
  };
  for (const View& input : inputs) {
    const bool scalar = !same_places(input, result);
    if (scalar && !one_number(input, result)) return false;
    add(flat.inputs, input.data, input.dtype, scalar ? kElement : kElements);
  }
  for (size_t i = 0; i < number_count; ++i) add(flat.inputs, numbers + i, dtype_of<Computed<T>>, kNumber);
  for (const View& output : outputs) {
    if (!same_places(output, result)) return false;
    add(flat.outputs, output.data, output.dtype, kElements);
  }
  parallel_for(result.numel(), kGrain, flat);
  return true;
}

}  // namespace deckle::kernels::cpu::pointwise
