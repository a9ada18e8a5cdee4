// A call of attention as the kernels read it: the arguments of kernels/args/attention.h with every pointer on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cuda::general {

/// Rows or keys that a sequence may have: differences of positions stay in 32 bits.
inline constexpr int64_t kLongest = int64_t{1} << 30;

/// 64 rows, or 64 keys, of one sequence.
struct Task {
  int32_t sequence, first;
};

/// What all kernels of a call read. The pointers of `p` are on the device.
struct Call {
  AttentionProblem p;
  const Task* row_tasks = nullptr;
  const Task* key_tasks = nullptr;
  int64_t row_task_count = 0, key_task_count = 0;
  int64_t longest_rows = 0, longest_keys = 0;  // of any sequence
  int64_t total_rows = 0;                      // packed rows, for which statistics have room
  bool spare_keys = false;
  uint32_t dropout_key[2] = {0, 0};
  const uint32_t* made_key = nullptr;  // [2], of a graph's work; null: the one above
  const int* wanted = nullptr;         // where the device says whether forward and backward are to do anything; null: they are
};

/// What a problem points to on the host but for its mask, in one piece that is copied to the device: where each part lies in it,
/// and its bytes, which a problem of the same lengths shares.
class Metadata {
 public:
  /// `problem` points to host memory, which bytes() reads once more. Where the device alone knows the lengths, of so many packed
  /// `rows` and `keys` at most, there is room for what list_tasks (kernels.h) writes.
  explicit Metadata(const AttentionProblem& problem, int64_t rows = 0, int64_t keys = 0);

  int64_t size() const { return size_; }
  std::vector<std::byte> bytes() const;
  /// Of the mask's ranges and of its boolean plane, as far as sequences reach; 0: there are none.
  int64_t bound_count() const { return bound_count_; }
  int64_t mask_bytes() const { return mask_bytes_; }
  /// The call, once bytes() lie at `memory` of the device, and the mask at `bounds` and `mask`.
  Call at(const void* memory, const int32_t* bounds, const void* mask) const;

 private:
  void count_tasks();
  void leave_room(int64_t rows, int64_t keys);
  int64_t reserve(int64_t bytes);

  Call call_;  // its problem is the host's
  int64_t size_ = 0;
  int64_t q_offsets_ = -1, k_offsets_ = -1, q_lengths_ = -1, k_lengths_ = -1, bias_offsets_ = -1, row_tasks_ = -1,
          key_tasks_ = -1;  // -1: not there
  int64_t bound_count_ = 0, mask_bytes_ = 0;
};

/// Bytes of one statistic of every packed row and head, a multiple of 256.
inline int64_t statistic_bytes(const Call& call) {
  const int64_t item = call.p.dtype == DType::float64 ? 8 : 4;
  return (call.total_rows * call.p.heads * item + 255) / 256 * 256;
}

}  // namespace deckle::kernels::cuda::general
