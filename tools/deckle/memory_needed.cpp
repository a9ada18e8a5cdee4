#include "tools/deckle/memory_needed.h"

#include <unistd.h>

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/cuda/pool.h"
#include "tools/deckle/numbers.h"

namespace deckle::cli {
namespace {

constexpr double kFloat = 4;
constexpr double kId = 8;
/// Values that the backward of one layer reads of each token, in widths: norms, queries, keys, values, heads, three of the
/// feed-forward block of 8/3 widths.
constexpr double kSavedWidths = 8;

double parameter_bytes(const nn::DecoderOptions& model) {
  const auto d_model = static_cast<double>(model.d_model), heads = static_cast<double>(model.heads);
  const double hidden = model.hidden > 0 ? static_cast<double>(model.hidden) : d_model * 8 / 3;
  const double kv_share = model.kv_heads > 0 ? static_cast<double>(model.kv_heads) / heads : 1;
  const double layer = d_model * d_model * (2 + 2 * kv_share) + 3 * d_model * hidden;
  const double parameters = static_cast<double>(model.depth) * layer + 2 * static_cast<double>(model.vocab) * d_model;
  return 4 * kFloat * parameters;  // with a gradient and two averages of each
}

double step_bytes(const TrainOptions& options, int64_t text_bytes) {
  const auto tokens = static_cast<double>(std::min(options.tokens, text_bytes));
  const double saved = kSavedWidths * static_cast<double>(options.model.d_model) * static_cast<double>(options.model.depth) +
                       static_cast<double>(options.model.vocab);
  return tokens * (kFloat * saved + kId * static_cast<double>(options.accumulate));
}

}  // namespace

void require_memory(const TrainOptions& options, int64_t text_bytes, double available, const std::string& owner) {
  const double model = parameter_bytes(options.model), step = step_bytes(options, text_bytes);
  check(model + step <= available,
        "training needs {} of memory or more ({} of it for parameters, gradients and averages), {} has {}: lower --d-model, "
        "--depth, --hidden, --tokens or --accumulate",
        bytes_text(model + step), bytes_text(model), owner, bytes_text(available));
}

void require_memory(const TrainOptions& options, int64_t text_bytes, Device device) {
  if (device.is_cuda())
    return require_memory(options, text_bytes, static_cast<double>(cuda::pool::room(device).total), to_string(device));
  require_memory(options, text_bytes,
                 static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)), "the machine");
}

}  // namespace deckle::cli
