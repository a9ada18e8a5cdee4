#pragma once

#include <gtest/gtest.h>

#include "deckle/base/parallel.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::testing {

/// The bytes of several results, one after another.
template <typename... More>
std::vector<unsigned char> bytes(const Buffer& first, const More&... more) {
  std::vector<unsigned char> all = bytes(first);
  const std::vector<unsigned char> rest = bytes(more...);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

/// `compute` returns the bytes of its results; they must not depend on the number of threads.
template <typename Compute>
void expect_same_for_thread_counts(Compute&& compute) {
  const int before = num_threads();
  std::vector<unsigned char> of_one;
  for (const int threads : {1, 2, 3, 8, 16, 32}) {
    set_num_threads(threads);
    const std::vector<unsigned char> got = compute();
    if (threads == 1) of_one = got;
    EXPECT_TRUE(got == of_one) << threads << " threads give other bytes than one";
  }
  set_num_threads(before);
}

}  // namespace deckle::testing
