#include "opgen/readers/aten/overload.h"

#include "opgen/readers/aten/convert.h"

namespace opgen::aten {
namespace {

/// How well the arguments fit; -1 if they do not.
int fit(const std::vector<Parameter>& parameters, const std::vector<std::optional<Type>>& arguments, bool method) {
  if (arguments.size() > parameters.size()) return -1;
  size_t self = 0;
  for (size_t i = 0; method && i < parameters.size(); ++i) {
    if (parameters[i].name == "self") self = i;
  }
  int total = 0;
  size_t next = method ? 1 : 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_self = method && i == self;
    if (!is_self && next == arguments.size()) {
      if (!parameters[i].has_default) return -1;
      continue;
    }
    const int one = distance(arguments[is_self ? 0 : next++], parameters[i].type);
    if (one < 0) return -1;
    total += one;
  }
  return next == arguments.size() ? total : -1;
}

}  // namespace

std::pair<const Schema*, size_t> best_overload(const std::vector<const Schema*>& candidates,
                                               const std::vector<std::optional<Type>>& arguments, bool method) {
  std::pair<const Schema*, size_t> best = {nullptr, 0};
  int best_fit = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (const bool grouped : {true, false}) {
      const int one = fit(parameters_of(*candidates[i], grouped), arguments, method);
      if (one < 0 || (best.first && one >= best_fit)) continue;
      best = {candidates[i], i};
      best_fit = one;
    }
  }
  return best;
}

}  // namespace opgen::aten
