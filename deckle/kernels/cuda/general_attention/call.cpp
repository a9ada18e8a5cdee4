#include "deckle/kernels/cuda/general_attention/call.h"

#include <algorithm>
#include <cstring>

#include "deckle/base/philox.h"

namespace deckle::kernels::cuda::general {
namespace {

constexpr int64_t kTileRows = 64, kAlignment = 64;

/// Windows say no more than any length does, so that 32 bits hold sums with them.
constexpr int64_t kWidest = kLongest;

/// Elements of the boolean mask, which is at least as large as the longest sequences.
int64_t mask_size(const AttentionProblem& p, int64_t rows, int64_t keys) {
  if (p.sequences == 0 || rows == 0 || keys == 0) return 0;
  return (p.sequences - 1) * p.mask.sequence_stride + (p.heads - 1) * p.mask.head_stride + (rows - 1) * p.mask.row_stride +
         (keys - 1) * p.mask.column_stride + 1;
}

}  // namespace

template <typename T>
int64_t Metadata::append(const T* data, int64_t count) {
  if (data == nullptr) return -1;
  const auto at = static_cast<int64_t>(bytes_.size()), size = count * static_cast<int64_t>(sizeof(T));
  bytes_.resize(static_cast<size_t>(at + (size + kAlignment - 1) / kAlignment * kAlignment));
  if (size > 0) std::memcpy(bytes_.data() + at, data, static_cast<size_t>(size));
  return at;
}

Metadata::Metadata(const AttentionProblem& problem, int64_t rows, int64_t keys) {
  call_.p = problem;
  AttentionProblem& p = call_.p;
  if (p.window_left >= 0) p.window_left = std::min(p.window_left, kWidest);
  if (p.window_right >= 0) p.window_right = std::min(p.window_right, kWidest);
  if (p.known())
    list_tasks();
  else
    leave_room(rows, keys);
  const AttentionDropout& d = p.dropout;
  const auto key = Philox<10>::generate({static_cast<uint32_t>(d.offset), static_cast<uint32_t>(d.offset >> 32), 0x44524F50u, 0},
                                        static_cast<uint32_t>(d.seed), static_cast<uint32_t>(d.seed >> 32));
  call_.dropout_key[0] = key[0];
  call_.dropout_key[1] = key[1];
}

void Metadata::leave_room(int64_t rows, int64_t keys) {
  const AttentionProblem& p = call_.p;
  call_.longest_rows = p.most_rows;
  call_.longest_keys = p.most_keys;
  call_.total_rows = rows;
  call_.row_task_count = rows / kTileRows + p.sequences;
  call_.key_task_count = keys / kTileRows + p.sequences;
  const std::vector<int64_t> offsets(static_cast<size_t>(p.sequences + 2));
  const std::vector<Task> tasks(static_cast<size_t>(std::max(call_.row_task_count, call_.key_task_count)));
  q_offsets_ = append(offsets.data(), p.sequences + 2);
  k_offsets_ = append(offsets.data(), p.sequences + 2);
  row_tasks_ = append(tasks.data(), call_.row_task_count);
  key_tasks_ = append(tasks.data(), call_.key_task_count);
}

void Metadata::list_tasks() {
  const AttentionProblem& p = call_.p;
  std::vector<Task> row_tasks, key_tasks;
  for (int64_t b = 0; b < p.sequences; ++b) {
    const int64_t rows = p.rows(b), keys = p.keys(b);
    call_.longest_rows = std::max(call_.longest_rows, rows);
    call_.longest_keys = std::max(call_.longest_keys, keys);
    call_.total_rows = std::max(call_.total_rows, p.q_offsets[b] + rows);
    call_.spare_keys = call_.spare_keys || p.k_offsets[b] + keys < p.k_offsets[b + 1];
    for (int64_t i = 0; i < rows; i += kTileRows) row_tasks.push_back({static_cast<int32_t>(b), static_cast<int32_t>(i)});
    for (int64_t j = 0; j < keys; j += kTileRows) key_tasks.push_back({static_cast<int32_t>(b), static_cast<int32_t>(j)});
  }
  call_.row_task_count = static_cast<int64_t>(row_tasks.size());
  call_.key_task_count = static_cast<int64_t>(key_tasks.size());
  q_offsets_ = append(p.q_offsets, p.sequences + 1);
  k_offsets_ = append(p.k_offsets, p.sequences + 1);
  q_lengths_ = append(p.q_lengths, p.sequences);
  k_lengths_ = append(p.k_lengths, p.sequences);
  bias_offsets_ = append(p.bias_offsets, p.sequences);
  if (p.ranges.bounds != nullptr) bound_count_ = call_.total_rows * p.ranges.count * 2;
  if (p.mask.data != nullptr) mask_bytes_ = mask_size(p, call_.longest_rows, call_.longest_keys);
  row_tasks_ = append(row_tasks.data(), call_.row_task_count);
  key_tasks_ = append(key_tasks.data(), call_.key_task_count);
}

Call Metadata::at(const void* memory, const int32_t* bounds, const void* mask) const {
  Call call = call_;
  const auto place = [&]<typename T>(const T*& pointer, int64_t at) {
    pointer = at < 0 ? nullptr : reinterpret_cast<const T*>(static_cast<const std::byte*>(memory) + at);
  };
  AttentionProblem& p = call.p;
  place(p.q_offsets, q_offsets_);
  place(p.k_offsets, k_offsets_);
  place(p.q_lengths, q_lengths_);
  place(p.k_lengths, k_lengths_);
  place(p.bias_offsets, bias_offsets_);
  place(call.row_tasks, row_tasks_);
  place(call.key_tasks, key_tasks_);
  p.ranges.bounds = bounds;
  p.mask.data = const_cast<void*>(mask);
  return call;
}

}  // namespace deckle::kernels::cuda::general
