#pragma once

#include <deckle/deckle.h>

#include <string>
#include <utility>

/// Labelled time series of any lengths: [series, time, channels] with time ragged.
struct Dataset {
  deckle::NestedTensor series;  // float32
  deckle::Tensor labels;        // [series], int64, from 0 on

  int64_t size() const { return series.components(); }
  int64_t channels() const { return series.size(-1); }
  int64_t classes() const { return labels.numel() == 0 ? 0 : deckle::max(labels).item<int64_t>() + 1; }

  /// These series, in this order.
  Dataset chosen(const deckle::Tensor& index) const {
    return {deckle::index_select(series, 0, index), deckle::index_select(labels, 0, index)};
  }
};

/// Two pulses, each in a channel of its own, somewhere in noise. The class says which of them comes first (2 * ...) and whether
/// the series is long (... + 1): no single step and no average shows either.
Dataset generated_pulses(int64_t count, uint64_t seed);

/// Throws, naming `path`, unless the set can be learned from: five series or more, for one in five is held out, finite values,
/// one label from 0 on for each series and fewer classes than series.
void require_usable(const Dataset& all, const std::string& path);

/// Rows `series,label,channel,...` in order of time under a header line; a series is a run of rows with one name.
Dataset read_csv(const std::string& path);

/// What numpy.savez(path, values=[rows, channels], offsets=[series + 1], labels=[series]) writes.
Dataset read_npz(const std::string& path);

/// (train, held out), drawn by the seed: one series in five is held out.
std::pair<Dataset, Dataset> split(const Dataset& all, uint64_t seed);

/// 0 .. count - 1 in an order drawn by the engine's seed.
deckle::Tensor shuffled(int64_t count, uint64_t seed);
