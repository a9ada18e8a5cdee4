#include "dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace dk = deckle;

namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kPulse = 9;  // steps of a pulse: one period of a sine

void add_pulse(std::vector<float>& values, int64_t start, int64_t channel) {
  for (int64_t i = 0; i < kPulse; ++i) {
    values[static_cast<size_t>((start + i) * kChannels + channel)] +=
        2.0f * static_cast<float>(std::sin(2 * M_PI * static_cast<double>(i) / (kPulse - 1)));
  }
}

}  // namespace

Dataset generated_pulses(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> noise(0.0f, 0.4f);
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); };
  std::vector<float> values;
  std::vector<int64_t> lengths, labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = between(0, 3), length = label % 2 == 1 ? between(88, 160) : between(24, 72);
    std::vector<float> series(static_cast<size_t>(length * kChannels));
    for (float& value : series) value = noise(engine);
    const int64_t first = between(0, length - 2 * kPulse), second = between(first + kPulse, length - kPulse);
    add_pulse(series, first, label / 2);
    add_pulse(series, second, 1 - label / 2);
    values.insert(values.end(), series.begin(), series.end());
    lengths.push_back(length);
    labels.push_back(label);
  }
  return {dk::NestedTensor::from_lengths(dk::tensor(values).view({-1, kChannels}), lengths), dk::tensor(labels)};
}

void require_usable(const Dataset& all, const std::string& path) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw dk::Error(path + ": " + what);
  };
  require(all.size() >= 5, std::to_string(all.size()) + " series (expected 5 or more, for one in five is held out)");
  require(all.channels() >= 1, "no channels (expected 1 or more)");
  require(dk::all(dk::isfinite(all.series.values())).item<bool>(), "some values are infinite or no numbers");
  require(all.labels.dim() == 1 && all.labels.numel() == all.size(),
          "labels of shape " + dk::to_string(all.labels.sizes()) + " (expected one for each series)");
  require(all.labels.dtype() == dk::DType::int64, "labels are no integers");
  for (const int64_t label : all.labels.to_vector<int64_t>())
    require(label >= 0 && label < all.size(), "label " + std::to_string(label) + " (expected 0.." +
                                                  std::to_string(all.size() - 1) + ", fewer classes than series)");
}

dk::Tensor shuffled(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 engine(seed);
  std::shuffle(order.begin(), order.end(), engine);
  return dk::tensor(order);
}

std::pair<Dataset, Dataset> split(const Dataset& all, uint64_t seed) {
  const dk::Tensor order = shuffled(all.size(), seed);
  const int64_t held_out = all.size() / 5;
  return {all.chosen(dk::slice(order, 0, held_out, all.size())), all.chosen(dk::slice(order, 0, 0, held_out))};
}
