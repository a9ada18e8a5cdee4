#include "tests/kernels/cuda/attention_case.h"

#include <cmath>
#include <limits>

#include "tests/kernels/cuda/attention_data.h"

namespace deckle::testing {
namespace {

using kernels::AttentionElement;

double to_double(AttentionElement element, uint16_t bits) {
  if (element == AttentionElement::bf16) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  const int sign = bits >> 15, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  }
  return sign ? -value : value;
}

std::vector<int64_t> offsets_of(const std::vector<int>& lengths) {
  std::vector<int64_t> offsets(lengths.size() + 1, 0);
  for (size_t i = 0; i < lengths.size(); ++i) offsets[i + 1] = offsets[i] + lengths[i];
  return offsets;
}

}  // namespace

std::string describe(const CaseOptions& o) {
  std::string text = std::string(o.element == AttentionElement::bf16 ? "bf16" : "f16") + " D " + std::to_string(o.head_dim) + "/" +
                     std::to_string(o.value_dim) + " B " + std::to_string(o.batch) + " H " + std::to_string(o.heads) + "/" +
                     std::to_string(o.kv_heads);
  if (o.ragged()) {
    text += " ragged";
    for (size_t i = 0; i < o.query_lengths.size() && i < 12; ++i) {
      text += " " + std::to_string(o.query_lengths[i]) + "x" + std::to_string(o.key_lengths[i]);
    }
  } else {
    text += " " + std::to_string(o.queries) + "x" + std::to_string(o.keys);
  }
  text += " window " + std::to_string(o.mask.left) + "," + std::to_string(o.mask.right) + (o.mask.bottom_right ? " br" : " tl") +
          " layout " + std::to_string(static_cast<int>(o.layout)) + " scale " + std::to_string(o.scale) + " seed " +
          std::to_string(o.seed);
  return text;
}

std::vector<uint16_t> CaseTensor::bits() const {
  const std::vector<uint16_t> memory = buffer.download<uint16_t>();
  std::vector<uint16_t> packed;
  packed.reserve(batch * rows * heads * columns);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        const uint16_t* from = memory.data() + b * tensor.batch_stride + r * tensor.row_stride + h * tensor.head_stride;
        packed.insert(packed.end(), from, from + columns);
      }
    }
  }
  return packed;
}

std::vector<double> CaseTensor::values(AttentionElement element) const {
  std::vector<double> result;
  for (const uint16_t raw : bits()) result.push_back(to_double(element, raw));
  return result;
}

AttentionCase::AttentionCase(const CaseOptions& given) : options(given) {
  auto& sizes = problem.sizes;
  problem.element = options.element;
  problem.mask = options.mask;
  problem.scale = options.scale != 0.0f ? options.scale : 1.0f / std::sqrt(static_cast<float>(options.head_dim));
  sizes.batch = options.batch;
  sizes.heads = options.heads;
  sizes.kv_heads = options.kv_heads;
  sizes.head_dim = options.head_dim;
  sizes.value_dim = options.value_dim;
  sizes.query_rows = options.queries;
  sizes.key_rows = options.keys;
  if (options.ragged()) {
    query_offsets_host = offsets_of(options.query_lengths);
    key_offsets_host = offsets_of(options.key_lengths);
    sizes.batch = options.batch = static_cast<int>(options.query_lengths.size());
    sizes.query_rows = query_offsets_host.back();
    sizes.key_rows = key_offsets_host.back();
    query_offsets = DeviceBuffer(query_offsets_host.size() * 8);
    key_offsets = DeviceBuffer(key_offsets_host.size() * 8);
    query_offsets.upload(query_offsets_host);
    key_offsets.upload(key_offsets_host);
    sizes.query_offsets = query_offsets.as<int64_t>();
    sizes.key_offsets = key_offsets.as<int64_t>();
  }
  q = make_tensor(false, options.head_dim);
  k = make_tensor(true, options.head_dim);
  v = make_tensor(true, options.value_dim);
  out = make_tensor(false, options.value_dim);
  fill(q, 1, options.magnitude);
  fill(k, 2, options.magnitude);
  fill(v, 3, 1.0f);
  problem.q = q.tensor;
  problem.k = k.tensor;
  problem.v = v.tensor;
  problem.out = out.tensor;
  lse = DeviceBuffer(lse_count() * 4);
  problem.lse = lse.as<float>();
}

CaseTensor AttentionCase::make_tensor(bool key_side, int columns) const {
  CaseTensor t;
  const auto& sizes = problem.sizes;
  t.batch = options.ragged() ? 1 : sizes.batch;
  t.rows = key_side ? sizes.key_rows : sizes.query_rows;
  t.heads = key_side ? sizes.kv_heads : sizes.heads;
  t.columns = columns;
  auto& s = t.tensor;
  switch (options.layout) {
    case Layout::rows_outer:
      s.head_stride = columns;
      s.row_stride = t.heads * columns;
      s.batch_stride = t.rows * s.row_stride;
      break;
    case Layout::heads_outer:
      s.row_stride = columns;
      s.head_stride = t.rows * columns;
      s.batch_stride = t.heads * s.head_stride;
      break;
    case Layout::padded_rows:
      s.head_stride = columns + 8;
      s.row_stride = t.heads * s.head_stride + 24;
      s.batch_stride = t.rows * s.row_stride + 64;
      break;
  }
  const int64_t elements = t.batch * s.batch_stride;
  t.buffer = DeviceBuffer(elements * 2);
  s.data = t.buffer.as<void>();
  return t;
}

void AttentionCase::fill(const CaseTensor& t, uint64_t stream, float magnitude) const {
  fill_normal(options.element, t.buffer.as<void>(), t.buffer.bytes() / 2, options.seed * 16 + stream, magnitude);
}

void AttentionCase::overwrite_sequence(CaseTensor& t, bool key_side, int sequence, float value) const {
  uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  // NaN and infinities only: their half patterns are the same truncation in both types up to the exponent width.
  const uint16_t nan_or_inf = options.element == AttentionElement::bf16 ? static_cast<uint16_t>(wide >> 16)
                              : std::isnan(value)                       ? 0x7e00
                                                                        : static_cast<uint16_t>((wide >> 31 << 15) | 0x7c00);
  std::vector<uint16_t> memory = t.buffer.download<uint16_t>();
  const auto& offsets = key_side ? key_offsets_host : query_offsets_host;
  const int64_t begin = options.ragged() ? offsets[sequence] : 0, end = options.ragged() ? offsets[sequence + 1] : t.rows;
  const int64_t base = options.ragged() ? 0 : sequence * t.tensor.batch_stride;
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t h = 0; h < t.heads; ++h) {
      for (int64_t c = 0; c < t.columns; ++c) memory[base + r * t.tensor.row_stride + h * t.tensor.head_stride + c] = nan_or_inf;
    }
  }
  t.buffer.upload(memory);
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) {
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return std::numeric_limits<double>::infinity();
      continue;
    }
    if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

double output_tolerance(AttentionElement element) { return element == AttentionElement::bf16 ? 4e-3 : 6e-4; }
double gradient_tolerance(AttentionElement element) { return element == AttentionElement::bf16 ? 8e-3 : 1.2e-3; }

}  // namespace deckle::testing
