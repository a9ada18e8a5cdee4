// Deckle's side of the benchmark of dense ops: answers each line on standard input with one line of JSON.
//   ops                          every case and its kind
//   load ROWS COLUMNS DTYPE LAYOUT SEED PATH
//                                draws the operands; writes them to PATH for the peer
//   time OP PASS CALLS           seconds per call, after one that is not counted; PASS: forward or backward; "lacks" where there
//                                is no such op for the dtype, or no derivative; "shares": whether nothing was written
//   check OP PASS PATH           writes the result, or the gradients by the names of the operands, to PATH
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "benchmarks/harness/serve.h"
#include "cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dk = deckle;
using namespace dense_ops;

namespace {

constexpr const char* kKindNames[] = {"pointwise", "compare", "reduction", "norm",      "loss",  "product",
                                      "window",    "index",   "sort",      "structure", "random"};

template <typename Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

dk::DType dtype_named(const std::string& name) {
  for (int i = 0; i < dk::kDTypeCount; ++i) {
    if (dk::name(static_cast<dk::DType>(i)) == name) return static_cast<dk::DType>(i);
  }
  throw std::invalid_argument(name);
}

class Contender {
 public:
  std::string ops() const {
    std::vector<std::string> rows;
    for (const Case& each : cases()) {
      rows.push_back(fmt::format(R"({{"name": "{}", "kind": "{}"}})", each.name, kKindNames[static_cast<size_t>(each.kind)]));
    }
    return fmt::format(R"({{"ops": [{}]}})", fmt::join(rows, ", "));
  }

  std::string load(std::istream& arguments) {
    int64_t rows = 0, columns = 0;
    uint64_t seed = 0;
    std::string dtype, layout, path;
    arguments >> rows >> columns >> dtype >> layout >> seed >> path;
    const auto drawn = draw(rows, columns, dk::is_integral(dtype_named(dtype)), seed);
    dk::io::save(drawn, path);
    operands_ = make_operands(drawn, dtype_named(dtype), layout);
    leaves_ = leaves(operands_);
    return "{}";
  }

  std::string time(std::istream& arguments) const {
    const Case& op = named(arguments);
    std::string pass;
    int64_t calls = 0;
    arguments >> pass >> calls;
    if (pass == "forward") {
      const dk::NoGrad no_grad;
      dk::Tensor result = op.call(operands_);
      const bool shares = is_operands(result);
      const double seconds = seconds_of([&] {
        for (int64_t i = 0; i < calls; ++i) result = op.call(operands_);
      });
      return answer(seconds / static_cast<double>(calls), shares);
    }
    std::vector<dk::Tensor> results;
    for (int64_t i = 0; i <= calls; ++i) results.push_back(op.call(operands_));
    if (!results[0].requires_grad()) return R"({"lacks": "no derivative"})";
    const dk::Tensor cotangent = results[0].detach() * 1;  // in the result's layout, as the peer's clone
    bool shares = true;
    for (const dk::Tensor& gradient : gradients(results[0], cotangent))
      shares = shares && gradient.raw_data() == cotangent.raw_data();
    results.erase(results.begin());
    const double seconds = seconds_of([&] {
      for (const dk::Tensor& result : results) gradients(result, cotangent);
    });
    return answer(seconds / static_cast<double>(calls), shares);
  }

  std::string check(std::istream& arguments) const {
    const Case& op = named(arguments);
    std::string pass, path;
    arguments >> pass >> path;
    const dk::Tensor result = op.call(operands_);
    std::map<std::string, dk::Tensor> all;
    if (pass == "forward") {
      all["result"] = result.detach();
    } else {
      const dk::Tensor value = result.detach(), cotangent = value * (value + 0.5);
      for (const auto& [name, leaf] : leaves_) {
        const dk::Tensor gradient =
            dk::grad({result}, {leaf}, {.grad_outputs = {cotangent}, .retain_graph = true, .allow_unused = true}).front();
        if (gradient.defined()) all[name] = gradient;
      }
    }
    for (auto& [name, values] : all) values = dk::contiguous(dk::to(values, dk::DType::float64));
    dk::io::save(all, path);
    return "{}";
  }

 private:
  static const Case& named(std::istream& arguments) {
    std::string name;
    arguments >> name;
    const auto found = std::ranges::find(cases(), name, &Case::name);
    if (found == cases().end()) throw std::invalid_argument("no op is called " + name);
    return *found;
  }

  /// Those that the result depends on, in memory: an expanded one is written out.
  std::vector<dk::Tensor> gradients(const dk::Tensor& result, const dk::Tensor& cotangent) const {
    std::vector<dk::Tensor> inputs, found;
    for (const auto& [name, leaf] : leaves_) inputs.push_back(leaf);
    for (const dk::Tensor& gradient : dk::grad({result}, inputs, {.grad_outputs = {cotangent}, .allow_unused = true})) {
      if (!gradient.defined()) continue;
      found.push_back(std::ranges::count(gradient.strides(), 0) > 0 ? dk::contiguous(gradient) : gradient);
      found.back().raw_data();
    }
    return found;
  }

  bool is_operands(const dk::Tensor& result) const {
    return std::ranges::any_of(leaves_, [&](const auto& leaf) { return leaf.second.raw_data() == result.raw_data(); });
  }

  static std::string answer(double seconds, bool shares) {
    return fmt::format(R"({{"seconds": {}, "shares": {}}})", seconds, shares);
  }

  Operands operands_;
  std::map<std::string, dk::Tensor> leaves_;
};

}  // namespace

int main() {
  Contender contender;
  dk::benchmarks::serve([&](const std::string& request, std::istream& arguments) {
    try {
      return request == "ops"    ? contender.ops()
             : request == "load" ? contender.load(arguments)
             : request == "time" ? contender.time(arguments)
                                 : contender.check(arguments);
    } catch (const dk::Error& error) {
      std::string words = error.what();
      std::ranges::replace(words, '"', ' ');
      return fmt::format(R"({{"lacks": "{}"}})", words.substr(0, words.find('\n')));
    }
  });
}
