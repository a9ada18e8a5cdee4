#include "deckle/kernels/cpu/simd/targets.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/cpu_cap.h"

namespace deckle::kernels::cpu::simd {
namespace {

int64_t allowed_targets() {
  const CpuIsa isa = cpu_isa();
  int64_t disabled = 0;
#if HWY_ARCH_X86
  if (isa < CpuIsa::avx512) disabled |= HWY_AVX3 | HWY_AVX3_DL;
  if (isa < CpuIsa::avx2) disabled |= HWY_AVX2;
#endif
  return HWY_TARGETS & ~disabled;
}

}  // namespace

void apply_cpu_cap() {
  static const bool capped = [] {
    hwy::DisableTargets(~allowed_targets());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }();
  (void)capped;
}

std::vector<int64_t> usable_targets() {
  apply_cpu_cap();
  hwy::SetSupportedTargetsForTest(0);
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets() & allowed_targets(); left != 0; left &= left - 1) targets.push_back(left & -left);
  std::reverse(targets.begin(), targets.end());  // in Highway stronger targets have lower bits
  return targets;
}

void force_target(int64_t target) {
  const std::vector<int64_t> usable = usable_targets();
  check(std::find(usable.begin(), usable.end(), target) != usable.end(), "target {} is not usable on this machine",
        hwy::TargetName(target));
  hwy::GetChosenTarget().Update(target);
}

}  // namespace deckle::kernels::cpu::simd
