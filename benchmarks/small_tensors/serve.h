#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace small_tensors {

using Cases = std::vector<std::pair<std::string, std::function<void()>>>;

/// Answers each line `CASE CALLS` on standard input with one line of JSON: nanoseconds per call, the best of five batches after
/// one that is not counted. `cases 0` lists them.
inline void serve(const Cases& cases) {
  std::string name;
  int64_t calls = 0;
  while (std::cin >> name >> calls) {
    if (name == "cases") {
      std::cout << "[";
      for (size_t i = 0; i < cases.size(); ++i) std::cout << (i ? ", " : "") << '"' << cases[i].first << '"';
      std::cout << "]" << std::endl;
      continue;
    }
    const auto found = std::find_if(cases.begin(), cases.end(), [&](const auto& each) { return each.first == name; });
    double best = 1e300;
    for (int batch = 0; batch < 6; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < calls; ++i) found->second();
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
      if (batch > 0) best = std::min(best, taken.count() / static_cast<double>(calls));
    }
    std::cout << "{\"nanoseconds\": " << best << "}" << std::endl;
  }
}

}  // namespace small_tensors
