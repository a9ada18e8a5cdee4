// Deckle's side of the benchmark of nested ops: answers each line on standard input with one line of JSON.
//   ops                       every case, its kind, and whether it is for many components
//   load SHAPE SEED [PATH]    draws a batch (log_normal, tiny or huge) and its operands; writes what the peer needs to PATH
//   work OP                   what the op does on nested operands / on dense ones: 1, or the ratio of pairs or of n log n
//   time OP PASS LAYOUT       seconds of one call; PASS: forward or backward, LAYOUT: nested or dense; "lacks" where there is no
//                             derivative
//   check OP PASS PATH        writes the result, or the gradients by the names of the operands, to PATH
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/serve.h"
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
    case Work::pairs:
      return length * length;
    case Work::order:
      return length * std::log2(length + 1);
    default:
      return length;
  }
}

template <typename Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What leaves() lists.
constexpr const char* kLeafNames[] = {"x", "y", "narrow", "weight", "bias", "down", "per_component", "kernel", "table", "own"};

/// The gradients of all operands, in the order of leaves(), in memory: an expanded one is written out; an undefined one where the
/// result does not depend on the operand. The cotangent is the result's own value.
template <typename X>
std::vector<dk::Tensor> gradients(const dk::Tensor& result, const Operands<X>& operands) {
  std::vector<dk::Tensor> all;
  for (const dk::Tensor& gradient :
       dk::grad({result}, leaves(operands), {.grad_outputs = {result.detach()}, .allow_unused = true})) {
    all.push_back(gradient.defined() ? dk::contiguous(gradient) : dk::Tensor());
    if (gradient.defined()) all.back().raw_data();
  }
  return all;
}

/// As the answer to `time`.
template <typename X>
std::string timed(const std::function<dk::Tensor(const Operands<X>&)>& op, const Operands<X>& operands, const std::string& pass) {
  double seconds = 0;
  if (pass == "forward") {
    const dk::NoGrad no_grad;
    seconds = seconds_of([&] { op(operands); });
  } else {
    const dk::Tensor result = op(operands);
    if (!result.requires_grad()) return R"({"lacks": "no derivative"})";
    seconds = seconds_of([&] { gradients(result, operands); });
  }
  return fmt::format(R"({{"seconds": {}}})", seconds);
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
      dk::io::save({{"offsets", d.x.offsets()},
                    {"x", d.x.values()},
                    {"y", d.y.values()},
                    {"narrow", d.narrow.values()},
                    {"ids", d.ids.values()},
                    {"weight", d.weight},
                    {"bias", d.bias},
                    {"down", d.down},
                    {"own", d.own},
                    {"per_component", d.per_component},
                    {"table", d.table}},
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
    const double dense =
        static_cast<double>(data_->batch.lengths.size()) * work_of(op.work, static_cast<double>(data_->batch.mean));
    return fmt::format(R"({{"work": {}}})", nested / dense);
  }

  std::string time(std::istream& arguments) const {
    const Case& op = named(arguments);
    std::string pass, layout;
    arguments >> pass >> layout;
    return layout == "dense" ? timed(op.dense, data_->dense, pass) : timed(op.nested, data_->nested, pass);
  }

  std::string check(std::istream& arguments) const {
    const Case& op = named(arguments);
    std::string pass, path;
    arguments >> pass >> path;
    const dk::Tensor result = op.nested(data_->nested);
    std::map<std::string, dk::Tensor> all;
    if (pass == "forward") {
      all["result"] = dk::contiguous(result.detach());
    } else {
      const char* const* name = kLeafNames;
      for (const dk::Tensor& gradient : gradients(result, data_->nested)) {
        if (gradient.defined()) all[*name] = gradient;
        ++name;
      }
    }
    for (auto& [name, values] : all) {
      if (!dk::is_floating(values.dtype())) values = dk::to(values, dk::DType::float32);
    }
    dk::io::save(all, path);
    return "{}";
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
  Contender contender;
  dk::benchmarks::serve([&](const std::string& request, std::istream& arguments) {
    return request == "ops"    ? contender.ops()
           : request == "load" ? contender.load(arguments)
           : request == "work" ? contender.work(arguments)
           : request == "time" ? contender.time(arguments)
                               : contender.check(arguments);
  });
}
