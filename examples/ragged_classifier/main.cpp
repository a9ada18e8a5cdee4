// Classifies time series of any lengths without a step of padding: convolution, running sums and pooling along the ragged dim.
#include <deckle/deckle.h>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <exception>

#include "dataset.h"

namespace dk = deckle;

namespace {

/// What a step looks like (convolution), what came before it (running sums: order), and the most striking step (pooling). The
/// sums reach as far as the series is long, so length is seen too.
class Classifier final : public dk::nn::Module {
 public:
  Classifier(int64_t channels, int64_t classes, int64_t width, dk::Generator& generator)
      : kernel_(dk::nn::normal_parameter({width, channels, kTaps}, 1.0 / std::sqrt(static_cast<double>(channels * kTaps)),
                                         &generator)),
        kernel_bias_(dk::nn::constant_parameter({width}, 0)),
        mix_(2 * width, width, {.generator = &generator}),
        head_(2 * width, classes, {.generator = &generator}) {}

  /// [series, time, channels] -> logits [series, classes]
  dk::Tensor operator()(const dk::NestedTensor& x) const {
    const dk::NestedTensor seen = dk::silu(dk::conv1d(x, kernel_, kernel_bias_, {.padding = dk::Padding::same}));
    const dk::NestedTensor before = dk::cumsum(seen, 1) * 0.05;
    const dk::NestedTensor steps = dk::silu(mix_(dk::cat({seen, before}, -1)));
    return head_(dk::cat({dk::pool(steps, dk::Pooling::max).dense(), dk::pool(steps, dk::Pooling::last).dense()}, -1));
  }

  DECKLE_MEMBERS(kernel_, kernel_bias_, mix_, head_);

 private:
  static constexpr int64_t kTaps = 9;
  dk::Tensor kernel_;
  dk::Tensor kernel_bias_;
  dk::nn::Linear mix_;
  dk::nn::Linear head_;
};

double accuracy(const Classifier& model, const Dataset& data) {
  const dk::NoGrad no_grad;
  const auto [best, classes] = dk::max(model(data.series), -1);
  return dk::mean(dk::to(dk::eq(classes, data.labels), dk::DType::float32)).item();
}

struct Options {
  std::string data;       // empty: the generated set
  int64_t series = 5000;  // of the generated set
  int64_t epochs = 12;
  double at_least = 0;  // accuracy, in percent, that the run must reach
};

void train(const Options& options) {
  const std::string& path = options.data;
  const Dataset all = path.empty()             ? generated_pulses(options.series, 1)
                      : path.ends_with(".npz") ? read_npz(path)
                                               : read_csv(path);
  require_usable(all, path.empty() ? "the generated set" : path);
  const auto [training, held_out] = split(all, 2);
  fmt::print("{}; {} classes; {} series held out\n", dk::to_string(all.series), all.classes(), held_out.size());

  dk::Generator generator(3);
  Classifier model(all.channels(), all.classes(), 32, generator);
  dk::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  const dk::optim::WarmupCosine schedule{.peak = 5e-3};
  constexpr int64_t kBatch = 64;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    double total = 0;
    const dk::Tensor order = shuffled(training.size(), static_cast<uint64_t>(10 + epoch));
    for (int64_t first = 0; first < training.size(); first += kBatch) {
      const Dataset batch = training.chosen(dk::slice(order, 0, first, first + kBatch));
      optimizer.set_lr(
          schedule.at((static_cast<double>(epoch) + static_cast<double>(first) / static_cast<double>(training.size())) /
                      static_cast<double>(options.epochs)));
      const dk::Tensor loss = dk::cross_entropy(model(batch.series), batch.labels);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      total += loss.item() * static_cast<double>(batch.size());
    }
    fmt::print("epoch {}: loss {:.3f}, {:.1f} % of the held-out series right\n", epoch + 1,
               total / static_cast<double>(training.size()), 100 * accuracy(model, held_out));
  }
  if (100 * accuracy(model, held_out) < options.at_least)
    throw dk::Error(fmt::format("fewer than {} % are right", options.at_least));
}

/// Whether `text` is a number from `lowest` on, which then is the value.
template <typename T>
bool read_number(std::string_view text, T lowest, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= lowest;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--series" && read_number<int64_t>(value, 0, options.series))
      ++i;
    else if (option == "--epochs" && read_number<int64_t>(value, 0, options.epochs))
      ++i;
    else if (option == "--at-least" && read_number<double>(value, 0, options.at_least))
      ++i;
    else if (!option.starts_with("-") && options.data.empty())
      options.data = option;
    else {
      fmt::print(stderr, "usage: ragged_classifier [SERIES.csv | SERIES.npz] [--series N] [--epochs N] [--at-least PERCENT]\n");
      return 2;
    }
  }
  try {
    train(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ragged_classifier: {}\n", error.what());
    return 1;
  }
}
