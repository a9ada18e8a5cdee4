// Convolutions of sequences and their gradients.      values: [rows, groups in], weight: [groups out, in, size]
//
//   groups of channels   the windows side by side, [windows, in size], then one product of cuBLASLt a group; the gradient of the
//   values
//                        is that product transposed, each row of which adds up its windows. Writes and reads `size` times the
//                        values.
//   one channel each     a thread an element (depthwise.cuh); memory-bound
// Sums over windows and taps have one order: no atomics.
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/conv/depthwise.cuh"
#include "deckle/kernels/cuda/pointwise/copy.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {

void mm(const Context&, const View& self, const View& mat2, const View& result);
void linear(const Context&, const View& input, const View& weight, const View& bias, const View& result);

namespace {

using conv::Windows;

/// result[w, c size + t] = values[row of window w's tap t, first + c], 0 beyond the sequence.
template <typename E>
__global__ void __launch_bounds__(256) side_by_side(Windows windows, const E* values, int64_t channels, int64_t first, int64_t in,
                                                    int64_t size, int64_t count, E* result) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / (in * size), rest = e - at * in * size, c = rest / size, tap = rest - c * size;
  const int64_t row = windows.row(at, tap);
  result[e] = row < 0 ? E(0) : values[row * channels + first + c];
}

/// result[row, first + c] = the sum over taps t of columns[the window whose tap t reads the row, c size + t].
template <typename T>
__global__ void __launch_bounds__(256) add_windows(Windows windows, const void* columns, DType dtype, int64_t channels,
                                                   int64_t first, int64_t in, int64_t size, int64_t count, void* result) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t row = e / in, c = e - row * in;
  T sum = 0;
  for (int64_t tap = 0; tap < size; ++tap) {
    const int64_t at = windows.window(row, tap);
    if (at >= 0) sum += pointwise::load<T>(columns, dtype, (at * in + c) * size + tap);
  }
  pointwise::store(sum, result, dtype, row * channels + first + c);
}

/// A matrix in memory of a kernel's own.
View matrix(void* data, DType dtype, int64_t rows, int64_t columns) {
  View view;
  view.data = data;
  view.dtype = dtype;
  view.defined = true;
  view.ndim = 2;
  view.sizes[0] = rows;
  view.sizes[1] = columns;
  view.strides[0] = columns;
  view.strides[1] = 1;
  return view;
}
/// Columns [first, first + count) of a matrix.
View columns_of(const View& whole, int64_t first, int64_t count) {
  View view = whole;
  view.data = static_cast<char*>(whole.data) + first * item_size(whole.dtype);
  view.sizes[1] = count;
  return view;
}
View transpose(View view) {
  std::swap(view.sizes[0], view.sizes[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

class Convolution {
 public:
  Convolution(const Context& context, const RaggedView& rows, const RaggedView& windows, DType dtype, int64_t in, int64_t out,
              int64_t size, int64_t stride, int64_t dilation, int64_t lead, int64_t groups)
      : context_(context),
        rows_(context, rows),
        windows_(context, windows),
        along_{rows_.ragged(), windows_.ragged(), stride, dilation, lead},
        dtype_(dtype),
        in_(in),
        out_(out),
        size_(size),
        groups_(groups),
        row_count_(rows.rows()),
        window_count_(windows.rows()),
        columns_(depthwise() ? 0 : window_count_ * in * size * item_size(dtype), context.device),
        part_(depthwise() || groups == 1 ? 0 : window_count_ * out * item_size(dtype), context.device) {}

  void forward(const View& values, const View& weight, const View& bias, const View& result) const {
    if (result.numel() == 0) return;
    if (depthwise()) return conv::depthwise(context_, along_, values, weight, bias, size_, groups_, window_count_, result);
    for (int64_t g = 0; g < groups_; ++g) {
      const View of_bias = bias.data == nullptr ? View{} : part_of_bias(bias, g);
      linear(context_, windows_of(values, g), weight_of(weight, g), of_bias, part_of(result, g));
      if (groups_ > 1) copy(context_, part_of(result, g), columns_of(as_matrix(result), g * out_, out_));
    }
  }
  void backward_values(const View& gradient, const View& weight, const View& result) const {
    if (result.numel() == 0) return;
    if (depthwise()) return conv::depthwise_transpose(context_, along_, gradient, weight, size_, groups_, row_count_, result);
    const View columns = matrix(columns_.as<void>(), dtype_, window_count_, in_ * size_);
    for (int64_t g = 0; g < groups_; ++g) {
      if (window_count_ > 0) mm(context_, columns_of(as_matrix(gradient), g * out_, out_), weight_of(weight, g), columns);
      const int64_t count = row_count_ * in_;
      const auto run = [&](auto zero) {
        add_windows<decltype(zero)><<<conv::blocks_of(count), 256, 0, deckle::cuda::stream_handle(context_.device)>>>(
            along_, columns.data, dtype_, in_ * groups_, g * in_, in_, size_, count, result.data);
      };
      if (dtype_ == DType::float64)
        run(double());
      else
        run(float());
    }
  }
  void backward_weight(const View& values, const View& gradient, const View& result) const {
    if (result.numel() == 0) return;
    if (depthwise()) return conv::depthwise_weight(context_, along_, values, gradient, size_, groups_, window_count_, result);
    for (int64_t g = 0; g < groups_; ++g)
      mm(context_, transpose(columns_of(as_matrix(gradient), g * out_, out_)), windows_of(values, g), weight_of(result, g));
  }

 private:
  bool depthwise() const { return in_ == 1 && out_ == 1; }
  View as_matrix(const View& view) const { return matrix(view.data, view.dtype, view.sizes[0], out_ * groups_); }
  View weight_of(const View& weight, int64_t g) const {
    return matrix(static_cast<char*>(weight.data) + g * out_ * in_ * size_ * item_size(dtype_), dtype_, out_, in_ * size_);
  }
  View part_of_bias(const View& bias, int64_t g) const {
    View part = bias;
    part.data = static_cast<char*>(bias.data) + g * out_ * bias.strides[0] * item_size(bias.dtype);
    part.sizes[0] = out_;
    return part;
  }
  View part_of(const View& result, int64_t) const {
    return matrix(groups_ == 1 ? result.data : part_.as<void>(), dtype_, window_count_, out_);
  }
  View windows_of(const View& values, int64_t g) const {
    const int64_t count = window_count_ * in_ * size_;
    const auto run = [&](auto zero) {
      using E = decltype(zero);
      if (count > 0)
        side_by_side<E><<<conv::blocks_of(count), 256, 0, deckle::cuda::stream_handle(context_.device)>>>(
            along_, values.ptr<E>(), in_ * groups_, g * in_, in_, size_, count, columns_.as<E>());
    };
    if (item_size(dtype_) == 2)
      run(uint16_t());
    else if (item_size(dtype_) == 4)
      run(uint32_t());
    else
      run(uint64_t());
    return matrix(columns_.as<void>(), dtype_, window_count_, in_ * size_);
  }

  const Context& context_;
  const segment::Uploaded rows_, windows_;
  const Windows along_;
  const DType dtype_;
  const int64_t in_, out_, size_, groups_, row_count_, window_count_;
  const deckle::cuda::Block columns_, part_;
};

}  // namespace

void segment_convolution(const Context& context, const View& values, const RaggedView& ragged, const RaggedView& windows,
                         const View& weight, const View& bias, int64_t stride, int64_t dilation, int64_t lead, int64_t groups,
                         const View& result) {
  const deckle::cuda::DeviceGuard guard(context.device);
  Convolution(context, ragged, windows, values.dtype, weight.sizes[1], weight.sizes[0] / groups, weight.sizes[2], stride,
              dilation, lead, groups)
      .forward(values, weight, bias, result);
  deckle::cuda::check_launch(context.device);
}

void segment_convolution_transpose(const Context& context, const View& gradient, const RaggedView& windows,
                                   const RaggedView& ragged, const View& weight, int64_t stride, int64_t dilation, int64_t lead,
                                   int64_t groups, const View& result) {
  const deckle::cuda::DeviceGuard guard(context.device);
  Convolution(context, ragged, windows, gradient.dtype, weight.sizes[1], weight.sizes[0] / groups, weight.sizes[2], stride,
              dilation, lead, groups)
      .backward_values(gradient, weight, result);
  deckle::cuda::check_launch(context.device);
}

void segment_convolution_weight(const Context& context, const View& values, const RaggedView& ragged, const View& gradient,
                                const RaggedView& windows, int64_t size, int64_t stride, int64_t dilation, int64_t lead,
                                int64_t groups, const View& result) {
  const deckle::cuda::DeviceGuard guard(context.device);
  Convolution(context, ragged, windows, values.dtype, values.sizes[1] / groups, gradient.sizes[1] / groups, size, stride,
              dilation, lead, groups)
      .backward_weight(values, gradient, result);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
