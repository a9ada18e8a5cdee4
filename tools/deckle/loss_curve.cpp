#include "tools/deckle/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "tools/deckle/numbers.h"

namespace deckle::cli {

namespace {

using Point = LossCurve::Point;

Tensor to_tensor(const std::vector<Point>& points) {
  const Tensor tensor = empty({static_cast<int64_t>(points.size()), 2}, DType::float64);
  double* value = tensor.data<double>();
  for (const Point& point : points) {
    *value++ = static_cast<double>(point.step);
    *value++ = point.bits;
  }
  return tensor;
}

std::vector<Point> from_tensor(const io::Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end() || found->second.dim() != 2 || found->second.size(1) != 2) {
    fail(ErrorKind::io, "the checkpoint has no loss curve \"{}\"", name);
  }
  const std::vector<double> values = found->second.to_vector();
  std::vector<Point> points;
  for (size_t i = 0; i < values.size(); i += 2) points.push_back({static_cast<int64_t>(values[i]), values[i + 1]});
  return points;
}

/// The rectangle of the data, with round numbers at both ends of the vertical axis.
struct Frame {
  double first_step = 0;
  double last_step = 1;
  double low = 0;
  double high = 1;
  double tick = 1;  // between labels of the vertical axis

  double x(const Point& point) const { return (static_cast<double>(point.step) - first_step) / (last_step - first_step); }
  double y(const Point& point) const { return std::clamp((point.bits - low) / (high - low), 0.0, 1.0); }
};

/// 1, 2 or 5 times a power of ten, so that `range` has about `count` of them.
double round_tick(double range, int count) {
  const double raw = std::max(range, 1e-6) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

Frame frame_of(const std::vector<Point>& training, const std::vector<Point>& validation) {
  Frame frame;
  double low = 1e300;
  double high = -1e300;
  double last = 1;
  for (const auto* points : {&training, &validation}) {
    for (const Point& point : *points) {
      low = std::min(low, point.bits);
      high = std::max(high, point.bits);
      last = std::max(last, static_cast<double>(point.step));
    }
  }
  if (low > high) low = 0, high = 1;
  frame.last_step = last;
  frame.tick = round_tick(high - low, 5);
  frame.low = std::floor(low / frame.tick) * frame.tick;
  frame.high = std::max(std::ceil(high / frame.tick) * frame.tick, frame.low + frame.tick);
  return frame;
}

std::string escape_xml(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

void LossCurve::save(io::Checkpoint& checkpoint) const {
  checkpoint.tensors["curve.training"] = to_tensor(training);
  checkpoint.tensors["curve.validation"] = to_tensor(validation);
}

LossCurve LossCurve::load(const io::Checkpoint& checkpoint) {
  return {from_tensor(checkpoint, "curve.training"), from_tensor(checkpoint, "curve.validation")};
}

std::vector<Point> thin_out(const std::vector<Point>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<Point> result;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * points.size() / count;
    const size_t end = (i + 1) * points.size() / count;
    double sum = 0;
    for (size_t j = begin; j < end; ++j) sum += points[j].bits;
    result.push_back({points[(begin + end) / 2].step, sum / static_cast<double>(end - begin)});
  }
  return result;
}

std::string svg(const LossCurve& curve, const std::string& title) {
  constexpr double kWidth = 720, kHeight = 360, kLeft = 56, kRight = 16, kTop = 40, kBottom = 40;
  constexpr size_t kPoints = 400;
  const std::vector<Point> training = thin_out(curve.training, kPoints);
  const Frame frame = frame_of(training, curve.validation);
  const auto x = [&](const Point& p) { return kLeft + frame.x(p) * (kWidth - kLeft - kRight); };
  const auto y = [&](const Point& p) { return kHeight - kBottom - frame.y(p) * (kHeight - kTop - kBottom); };

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fffdf8\"/>\n<text x=\"{2:.0f}\" y=\"22\" font-size=\"14\" "
      "fill=\"#333\">{3}</text>\n",
      kWidth, kHeight, kLeft, escape_xml(title));
  for (double value = frame.low; value <= frame.high + frame.tick / 2; value += frame.tick) {
    const double at = y({0, value});
    out += fmt::format("<line x1=\"{:.0f}\" y1=\"{:.1f}\" x2=\"{:.0f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft, at,
                       kWidth - kRight, at);
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#666\">{:.{}f}</text>\n", kLeft - 8, at + 4,
                       value, frame.tick < 0.1 ? 2 : 1);
  }
  const double step_tick = round_tick(frame.last_step, 6);
  for (double step = 0; step <= frame.last_step; step += step_tick) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#666\">{}</text>\n",
                       x({static_cast<int64_t>(step), 0}), kHeight - kBottom + 18, with_commas(static_cast<int64_t>(step)));
  }
  out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\" fill=\"#666\">training step</text>\n", kWidth - kRight,
                     kHeight - 6);
  out += fmt::format(
      "<text transform=\"translate(14 {:.0f}) rotate(-90)\" text-anchor=\"middle\" fill=\"#666\">bits per byte</text>\n",
      (kTop + kHeight - kBottom) / 2);
  if (!training.empty()) {
    out += "<polyline fill=\"none\" stroke=\"#8aa8c8\" stroke-width=\"1.5\" points=\"";
    for (const Point& point : training) out += fmt::format("{:.1f},{:.1f} ", x(point), y(point));
    out += "\"/>\n";
  }
  for (const Point& point : curve.validation)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"#b5452c\"/>\n", x(point), y(point));
  out += fmt::format(
      "<text x=\"{0:.0f}\" y=\"22\" text-anchor=\"end\"><tspan fill=\"#6488b0\">training: line</tspan> <tspan "
      "fill=\"#b5452c\">validation: dots</tspan></text>\n</svg>\n",
      kWidth - kRight);
  return out;
}

std::string terminal_plot(const LossCurve& curve, int width, int height) {
  constexpr int kLabel = 6;
  const int columns = std::max(width - kLabel - 1, 10);
  const std::vector<Point> training = thin_out(curve.training, static_cast<size_t>(columns));
  const Frame frame = frame_of(training, curve.validation);
  std::vector<std::string> rows(static_cast<size_t>(height), std::string(static_cast<size_t>(columns), ' '));
  const auto mark = [&](const Point& point, char symbol) {
    const auto row = static_cast<size_t>(std::lround((1 - frame.y(point)) * (height - 1)));
    const auto column = static_cast<size_t>(std::lround(std::clamp(frame.x(point), 0.0, 1.0) * (columns - 1)));
    rows[row][column] = symbol;
  };
  for (const Point& point : training) mark(point, '.');
  for (const Point& point : curve.validation) mark(point, 'o');

  std::string out = fmt::format("{:>{}} bits per byte (. training, o validation)\n", "", kLabel);
  for (int row = 0; row < height; ++row) {
    const double value = frame.high - (frame.high - frame.low) * row / (height - 1);
    out += row % 3 == 0 || row == height - 1 ? fmt::format("{:>{}.2f}", value, kLabel) : std::string(kLabel, ' ');
    std::string& line = rows[static_cast<size_t>(row)];
    line.erase(line.find_last_not_of(' ') + 1);
    out += "|" + line + "\n";
  }
  const std::string last = with_commas(static_cast<int64_t>(frame.last_step));
  out += fmt::format("{:>{}}+{}\n{:>{}} 0{:>{}}\n", "", kLabel, std::string(static_cast<size_t>(columns), '-'), "", kLabel,
                     "step " + last, columns - 1);
  return out;
}

}  // namespace deckle::cli
