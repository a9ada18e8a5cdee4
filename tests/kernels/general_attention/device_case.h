// The passes of the general kernels on a case in host memory: they run on copies on the device, or, emulated, in place.
#pragma once

#include "tests/kernels/cpu/attention/attention_case.h"

namespace deckle::testing::general {

/// Empty, or why nothing can run here.
std::string why_not();

/// While it lives the kernels read lengths from the device alone, in a room with rows and keys to spare.
class LengthsOnDevice {
 public:
  LengthsOnDevice() { there = true; }
  ~LengthsOnDevice() { there = false; }
  LengthsOnDevice(const LengthsOnDevice&) = delete;
  LengthsOnDevice& operator=(const LengthsOnDevice&) = delete;

  static inline bool there = false;
  static constexpr int64_t kSpare = 77;
};

/// The problem with offsets that lie on the device.
inline AttentionProblem in_room(AttentionProblem p, const int64_t* q_offsets, const int64_t* k_offsets) {
  for (int64_t b = 0; b < p.sequences; ++b) {
    p.most_rows = std::max(p.most_rows, p.rows(b));
    p.most_keys = std::max(p.most_keys, p.keys(b));
  }
  p.q_offsets = p.k_offsets = nullptr;
  p.device_q_offsets = q_offsets;
  p.device_k_offsets = k_offsets;
  return p;
}

void forward(const AttentionCase& c, const Operands& x, const Results& y);
void backward(const AttentionCase& c, const Operands& x, const Results& y, const Results& dy, const Operands& dx);
void jvp(const AttentionCase& c, const Operands& x, const Operands& t, const Results& ty);
void second(const AttentionCase& c, const Operands& x, const Operands& t, const Results& y, const Results& dy, const Results& tdy,
            const Operands& tdx, const Results& ty);
void mixed(const AttentionCase& c, const Operands& x, const Operands& a, const Operands& b, const Operands& ab, const Results& y);

}  // namespace deckle::testing::general
