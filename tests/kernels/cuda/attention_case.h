// One attention problem on the device with random data, and the path that computes it.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "deckle/kernels/args/attention_cuda.h"
#include "tests/kernels/cuda/attention_data.h"
#include "tests/kernels/cuda/attention_reference.h"

namespace deckle::testing {

using kernels::AttentionWindow;
using kernels::kUnboundedWindow;

/// Which kernels compute.
enum class Path { hopper, portable, decode };

/// How rows, heads and batch lie in memory; padded: with gaps behind every head, row and batch.
enum class Layout { rows_outer, heads_outer, padded };

struct CaseOptions {
  Path path = Path::hopper;
  AttentionElement element = AttentionElement::bf16;
  int head_dim = 128, value_dim = 128;
  int heads = 2, kv_heads = 2;
  std::vector<int> queries, keys;  // rows of each sequence; dense: all the same
  bool ragged = false;
  AttentionWindow mask;
  std::optional<float> scale;  // none: 1 / sqrt(head_dim)
  Layout layout = Layout::rows_outer;
  float magnitude = 1;    // of q and k
  int64_t batch_gap = 0;  // dense: elements between batches
  bool grad_lse = true;   // backward: there is one
  bool planned = false;   // ragged: the launches share a plan
  bool sinks = false;
  float soft_cap = 0;
  bool slopes = false;
  AttentionDropout dropout;
  int bias_dims = -1;  // which dims a bias has, of batch 8, head 4, row 2, key 1; the others are broadcast; -1: there is none
  bool expanded_bias = false;  // dense, without the dim of rows: it has one for each row, all at one place; its gradient does not
  bool ragged_bias = false;    // ragged: it lies sequence by sequence
  bool grad_bias = true;       // backward: its gradient is wanted
  bool bias_before_cap = false;
  int dead_row = -1;  // of a bias of rows and keys: its biases are -inf (of the first sequence and head where it has these dims)
  // Of a bias of rows and keys, in the range of the element type: every fifth row has one of these on all its keys, another on
  // some, and others on none.
  std::vector<float> far_biases;
  bool far_gradients = true;  // backward: rows with one of these on all their keys have a gradient of out; else zeros
  int table_reach = -1;       // -1: no table
  float far_table = 0;        // of a table: all of one head, and of another's whatever lies more than 10 keys before; 0: none
  int ranges = 0;             // of keys, for each query; some rows see none
  int mask_dims = -1;         // as bias_dims, of a mask of bytes
  std::vector<int> spare;     // ragged: rows behind the keys of each sequence, which hold NaN; empty: no key lengths
};

/// "bf16_192_128", or "bf16_128" where both dims are one, with `between` for the underscore.
std::string dims_of(AttentionElement element, int head_dim, int value_dim, const char* between);

std::string describe(const CaseOptions& options);

/// Random lengths, heads, mask and layout for the instance of `base`.
CaseOptions random_options(CaseOptions base, std::mt19937_64& random);

/// A [rows, heads, columns] tensor in memory of its own, which is all 0xffff at first: NaN in both element types, and no finite
/// result.
struct CaseTensor {
  kernels::AttentionTensor view;
  int64_t rows = 0, rows_per_batch = 0;  // of all sequences; rows behind the last sequence are not counted
  int heads = 0, columns = 0;
  DeviceBuffer memory;

  int64_t elements() const { return rows * heads * columns; }
  CaseTensor copy() const;
};

class AttentionCase {
 public:
  explicit AttentionCase(const CaseOptions& options);

  /// Both poison their outputs, run and wait.
  void forward();
  void backward();

  /// The float64 reference of the forward.
  void reference();

  /// Random grad_out and grad_lse, and memory for the gradients.
  void take_gradients();

  /// The same, out and lse as an exact forward would round them, and the float64 gradients. If `given_forward`, these are the
  /// gradients of the rounded out and lse, as any backward sees them, so that huge logits leave something to compare.
  void prepare_backward(bool given_forward = false);

  /// Sets the rows of one sequence of a ragged tensor to a 16-bit word.
  void overwrite(const CaseTensor& tensor, int sequence, uint16_t word) const;

  /// Other offsets than those of the sequences, as many.
  void replace_offsets(const std::vector<int64_t>& queries, const std::vector<int64_t>& keys);

  /// NaN in grad_out of the rows that attend no key: a loss that reads lse puts it there.
  void poison_dead_rows() const;

  int64_t first_row(const CaseTensor& tensor, int sequence) const;
  int64_t length(const CaseTensor& tensor, int sequence) const;

  CaseOptions options;
  kernels::AttentionBackward arguments;
  kernels::CudaAttentionProblem& problem = arguments.problem;
  CaseTensor q, k, v, out, grad_out, grad_q, grad_k, grad_v;
  DeviceBuffer lse, grad_lse, sinks, grad_sinks, slopes, grad_slopes, table, grad_table, bias, grad_bias;
  DeviceBuffer reference_out, reference_lse, reference_q, reference_k, reference_v;
  // Gradients, and behind them the sums of their terms' magnitudes.
  DeviceBuffer reference_sinks, reference_slopes, reference_table, reference_bias;

 private:
  CaseTensor make_tensor(bool key_side, int columns) const;
  void take_workspace(int64_t bytes);
  void check_guard() const;
  void make_plan();
  bool is_key_side(const CaseTensor& tensor) const {
    return &tensor == &k || &tensor == &v || &tensor == &grad_k || &tensor == &grad_v;
  }

  std::vector<int64_t> query_starts_{0}, key_starts_{0};
  void draw_dropout();
  void take_planes();
  void spread_far_biases();
  bool is_far(int64_t row) const { return !options.far_biases.empty() && row % 5 == 2; }
  kernels::CudaAttentionPlane plane(int dims, bool by_sequence, int64_t& elements);
  ReferenceForward exact() const;  // where reference() leaves its results

  DeviceBuffer offsets_, workspace_, plan_;
  DeviceBuffer keep_, keep_starts_;  // a byte for each (sequence, head, row, key)
  DeviceBuffer bounds_, bytes_, plane_offsets_;
  std::vector<std::vector<uint8_t>> sees_;  // with ranges or bytes: of each sequence [heads, rows], whether the row sees any key
};

}  // namespace deckle::testing
