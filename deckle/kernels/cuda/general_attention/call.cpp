#include "deckle/kernels/cuda/general_attention/call.h"

#include <algorithm>
#include <cstring>

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

int64_t tasks_of(int64_t count) { return (count + kTileRows - 1) / kTileRows; }

template <typename T>
constexpr int64_t bytes_of(int64_t count) {
  return count * static_cast<int64_t>(sizeof(T));
}

}  // namespace

int64_t Metadata::reserve(int64_t bytes) {
  const int64_t at = size_;
  size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

Metadata::Metadata(const AttentionProblem& problem, int64_t rows, int64_t keys) {
  call_.p = problem;
  AttentionProblem& p = call_.p;
  if (p.window_left >= 0) p.window_left = std::min(p.window_left, kWidest);
  if (p.window_right >= 0) p.window_right = std::min(p.window_right, kWidest);
  if (p.known())
    count_tasks();
  else
    leave_room(rows, keys);
  const int64_t offsets = p.sequences + (p.known() ? 1 : 2);
  q_offsets_ = reserve(bytes_of<int64_t>(offsets));
  k_offsets_ = reserve(bytes_of<int64_t>(offsets));
  const auto given = [&](const int64_t* array) { return array == nullptr ? -1 : reserve(bytes_of<int64_t>(p.sequences)); };
  if (p.known()) {
    q_lengths_ = given(p.q_lengths);
    k_lengths_ = given(p.k_lengths);
    bias_offsets_ = given(p.bias_offsets);
  }
  row_tasks_ = reserve(bytes_of<Task>(call_.row_task_count));
  key_tasks_ = reserve(bytes_of<Task>(call_.key_task_count));
  const AttentionDropout& d = p.dropout;
  const auto key = d.key();
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
}

void Metadata::count_tasks() {
  const AttentionProblem& p = call_.p;
  for (int64_t b = 0; b < p.sequences; ++b) {
    const int64_t rows = p.rows(b), keys = p.keys(b);
    call_.longest_rows = std::max(call_.longest_rows, rows);
    call_.longest_keys = std::max(call_.longest_keys, keys);
    call_.total_rows = std::max(call_.total_rows, p.q_offsets[b] + rows);
    call_.spare_keys = call_.spare_keys || p.k_offsets[b] + keys < p.k_offsets[b + 1];
    call_.row_task_count += tasks_of(rows);
    call_.key_task_count += tasks_of(keys);
  }
  if (p.ranges.bounds != nullptr) bound_count_ = call_.total_rows * p.ranges.count * 2;
  if (p.mask.data != nullptr) mask_bytes_ = mask_size(p, call_.longest_rows, call_.longest_keys);
}

std::vector<std::byte> Metadata::bytes() const {
  const AttentionProblem& p = call_.p;
  std::vector<std::byte> bytes(static_cast<size_t>(size_));
  if (!p.known()) return bytes;
  const auto copy = [&](int64_t at, const int64_t* array, int64_t count) {
    if (at >= 0 && count > 0) std::memcpy(bytes.data() + at, array, static_cast<size_t>(bytes_of<int64_t>(count)));
  };
  copy(q_offsets_, p.q_offsets, p.sequences + 1);
  copy(k_offsets_, p.k_offsets, p.sequences + 1);
  copy(q_lengths_, p.q_lengths, p.sequences);
  copy(k_lengths_, p.k_lengths, p.sequences);
  copy(bias_offsets_, p.bias_offsets, p.sequences);
  const auto list = [&](int64_t at, const auto& length) {
    for (int64_t b = 0; b < p.sequences; ++b) {
      for (int64_t first = 0; first < length(b); first += kTileRows, at += bytes_of<Task>(1)) {
        const Task task{static_cast<int32_t>(b), static_cast<int32_t>(first)};
        std::memcpy(bytes.data() + at, &task, sizeof(task));
      }
    }
  };
  list(row_tasks_, [&](int64_t b) { return p.rows(b); });
  list(key_tasks_, [&](int64_t b) { return p.keys(b); });
  return bytes;
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
