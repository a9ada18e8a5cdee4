// Deckle's side of the benchmark of nested ops: answers each line on standard input with one line of JSON.
//   ops                       every case, its kind, and whether it is for many components
//   load SHAPE SEED [PATH]    draws a batch (log_normal, tiny or huge) and its operands; writes what the peer needs to PATH
//   work OP                   what the op does on nested operands / on dense ones: 1, or the ratio of pairs or of n log n
//   time OP LAYOUT            seconds of one call; LAYOUT: nested or dense
//   check OP                  the sum of the result's elements and of their absolute values
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dk = deckle;
using namespace nested_ops;

namespace {

constexpr const char* kKindNames[] = {"pointwise", "norm", "linear", "reduction", "segment", "structure", "product", "sort"};

const Case& find(const std::string& name) { return *std::ranges::find(cases(), name, &Case::name); }

double work_of(Work work, double length) {
  switch (work) {
    case Work::pairs: return length * length;
    case Work::order: return length * std::log2(length + 1);
    default: return length;
  }
}

template <typename Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Contender {
 public:
  std::string ops() const {
    std::vector<std::string> rows;
    for (const Case& each : cases()) {
      rows.push_back(fmt::format(R"({{"name": "{}", "kind": "{}", "dense": {}, "for_many": {}}})", each.name,
                                 kKindNames[static_cast<size_t>(each.kind)], each.dense != nullptr, each.for_many));
    }
    return fmt::format(R"({{"ops": [{}]}})", fmt::join(rows, ", "));
  }

  std::string load(std::istream& arguments) {
    std::string shape, path;
    uint64_t seed = 0;
    arguments >> shape >> seed >> path;
    data_.reset();
    data_ = make_data(draw(shape, seed), seed);
    const Operands<dk::NestedTensor>& d = data_->nested;
    if (!path.empty()) {
      dk::io::save({{"offsets", d.x.offsets()}, {"x", d.x.values()}, {"y", d.y.values()}, {"narrow", d.narrow.values()},
                    {"ids", d.ids.values()}, {"weight", d.weight}, {"bias", d.bias}, {"down", d.down}, {"own", d.own},
                    {"per_component", d.per_component}, {"table", d.table}},
                   path);
    }
    const auto [shortest, longest] = std::ranges::minmax(data_->batch.lengths);
    return fmt::format(R"({{"components": {}, "mean": {}, "shortest": {}, "longest": {}, "features": {}}})", d.x.components(),
                       data_->batch.mean, shortest, longest, data_->batch.features);
  }

  std::string work(std::istream& arguments) const {
    const Case& op = named(arguments);
    double nested = 0;
    for (const int64_t length : data_->batch.lengths) nested += work_of(op.work, static_cast<double>(length));
    const double dense = static_cast<double>(data_->batch.lengths.size()) * work_of(op.work, static_cast<double>(data_->batch.mean));
    return fmt::format(R"({{"work": {}}})", nested / dense);
  }

  std::string time(std::istream& arguments) const {
    const Case& op = named(arguments);
    std::string layout;
    arguments >> layout;
    const double seconds = layout == "dense" ? seconds_of([&] { op.dense(data_->dense); }) : seconds_of([&] { op.nested(data_->nested); });
    return fmt::format(R"({{"seconds": {}}})", seconds);
  }

  std::string check(std::istream& arguments) const {
    const dk::Tensor result = dk::to(named(arguments).nested(data_->nested), dk::DType::float64);
    return fmt::format(R"({{"sum": {}, "magnitude": {}}})", dk::sum(result).item(), dk::sum(dk::abs(result)).item());
  }

 private:
  static const Case& named(std::istream& arguments) {
    std::string name;
    arguments >> name;
    return find(name);
  }

  std::optional<Data> data_;
};

}  // namespace

int main() {
  const dk::NoGrad no_grad;
  Contender contender;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream arguments(line);
    std::string request;
    arguments >> request;
    if (request == "ops") std::cout << contender.ops() << std::endl;
    if (request == "load") std::cout << contender.load(arguments) << std::endl;
    if (request == "work") std::cout << contender.work(arguments) << std::endl;
    if (request == "time") std::cout << contender.time(arguments) << std::endl;
    if (request == "check") std::cout << contender.check(arguments) << std::endl;
  }
}
