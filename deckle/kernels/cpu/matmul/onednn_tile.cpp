// One matrix product tile by a single-threaded oneDNN matmul primitive.            c[m, n] = a[m, k] b[k, n]
//
// A primitive is compiled for one shape, slowly, so each thread caches its own. They are created with a user scratchpad: a
// primitive with oneDNN's own scratchpad gives wrong results when two threads run it. Neither the shape of the primitive nor its
// blocking may depend on the number of threads, so both creation and execution happen under SingleThread.
//
// The float32 code that oneDNN 2.6 compiles for strided operands ("gemm:jit") uses the stack pointer as a pointer into a buffer
// of the heap: the frame of a signal's handler would be written over whatever lies before that buffer. Signals wait while it
// runs.
//
// Debian's 2.6.3 beside 3.2 from PyPI, one core of an Emerald Rapids, GF/s in processor time, best of 26 turns of each
// (2026-11-29; letters: which of a and b is transposed). A product of 1024^3 is cut into tiles of 256 x 256:
//                               2.6.3   3.2
//   float32  512 x 1024 x 1024    156   156   T, TT: the same
//   float32  100^3                148   147
//   bfloat16 256 x 256 x 1024    1293  1262   T of b 1292, 1258; T of a 925, 743; TT 919, 779
//   bfloat16 512 x 1024 x 1024    729   874   T of b 795, 987; T of a 642, 742; TT 664, 766
//   bfloat16 100^3                284   319

#include "deckle/kernels/cpu/matmul/onednn_tile.h"

#include <array>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/error.h"
#include "deckle/base/scratch.h"
#include "deckle/base/thread_lists.h"
#include "deckle/kernels/cpu/matmul/blocked_signals.h"
#include "deckle/kernels/cpu/matmul/single_thread.h"

namespace deckle::kernels::cpu::matmul {
namespace {

using dnnl::memory;

// Capacity of a thread's cache, which is cleared when full: a primitive holds about 20 KB of code.
constexpr size_t kMaxPrimitives = 2048;

[[noreturn]] void fail_onednn(const char* what, const dnnl::error& error) {
  throw Error(ErrorKind::runtime, std::string("oneDNN ") + what + ": " + error.what());
}

/// The strongest set that oneDNN is to use.
dnnl_cpu_isa_t wanted_isa() {
  switch (cpu_isa()) {
    case CpuIsa::sse2:
      return dnnl_cpu_isa_sse41;
    case CpuIsa::avx2:
      return dnnl_cpu_isa_avx2;
    case CpuIsa::avx512:
      return dnnl_cpu_isa_avx512_core_vnni;
    case CpuIsa::avx512_bf16:
    case CpuIsa::amx_bf16:
      break;
  }
  // Keeps oneDNN from using AMX tiles where the table or DECKLE_CPU rules them out.
  return bf16_arithmetic() == Bf16Arithmetic::tiles ? dnnl_cpu_isa_all : dnnl_cpu_isa_avx512_core_bf16;
}

/// oneDNN takes a limit before its first use alone. Where the program used it before Deckle, it goes on with what the program let
/// it have: DECKLE_CPU cannot lower that, which is an Error; without, that is what the processor has, as it is for Deckle (but
/// for AVX without AVX2, which oneDNN then uses alone). So it is of a oneDNN that was built to take no limit at all.
dnnl::engine make_engine() {
  const dnnl_cpu_isa_t wanted = wanted_isa();
  const dnnl_status_t status = wanted == dnnl_cpu_isa_all ? dnnl_success : dnnl_set_max_cpu_isa(wanted);
  if (status != dnnl_success && cpu_isa() < cpu_info().isa && (dnnl_get_effective_cpu_isa() & ~wanted) != 0) {
    const std::string cap = name(cpu_isa());
    if (status == dnnl_unimplemented) {
      throw Error(ErrorKind::runtime, "DECKLE_CPU caps at " + cap + ", which this oneDNN was built without a way to obey" +
                                          " (expected one built with ONEDNN_ENABLE_MAX_CPU_ISA, or no DECKLE_CPU)");
    }
    throw Error(ErrorKind::runtime,
                "DECKLE_CPU caps at " + cap + ", but the program used oneDNN with more (expected that Deckle multiplies first)");
  }
  return dnnl::engine(dnnl::engine::kind::cpu, 0);
}

const dnnl::engine& engine() {
  static const dnnl::engine engine = make_engine();
  return engine;
}

struct Key {
  int64_t m, n, k, a_leading, b_leading, c_leading;
  DType operands, result;
  bool a_transposed, b_transposed, biased, accumulate;

  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = static_cast<uint64_t>(key.operands) | static_cast<uint64_t>(key.result) << 8 |
                    static_cast<uint64_t>(key.a_transposed) << 16 | static_cast<uint64_t>(key.b_transposed) << 17 |
                    static_cast<uint64_t>(key.biased) << 18 | static_cast<uint64_t>(key.accumulate) << 19;
    for (const int64_t part : {key.m, key.n, key.k, key.a_leading, key.b_leading, key.c_leading}) {
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash);
  }
};

memory::data_type onednn_type(DType dtype) { return dtype == DType::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32; }

memory::desc describe(int64_t rows, int64_t cols, DType dtype, int64_t leading, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, leading} : memory::dims{leading, 1};
  return {memory::dims{rows, cols}, onednn_type(dtype), strides};
}

// A primitive and its arguments; only the addresses change from run to run.
class TilePrimitive {
 public:
  explicit TilePrimitive(const Key& key) {
    const memory::desc a = describe(key.m, key.k, key.operands, key.a_leading, key.a_transposed);
    const memory::desc b = describe(key.k, key.n, key.operands, key.b_leading, key.b_transposed);
    const memory::desc c = describe(key.m, key.n, key.result, key.c_leading, false);
    const memory::desc bias = describe(1, key.n, DType::float32, key.n, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate) {
      dnnl::post_ops add_to_c;
      add_to_c.append_sum(1.0f);
      attributes.set_post_ops(add_to_c);
    }
    const dnnl::matmul::desc description = key.biased ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(description, attributes, engine());
    primitive_ = dnnl::matmul(chosen);
    scratch_bytes_ = chosen.scratchpad_desc().get_size();
    keeps_stack_ = key.operands != DType::float32 || std::string_view(chosen.impl_info_str()).starts_with("brg");
    add(DNNL_ARG_SRC, a);
    add(DNNL_ARG_WEIGHTS, b);
    add(DNNL_ARG_DST, c);
    add(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc());
    if (key.biased) add(DNNL_ARG_BIAS, bias);
  }

  void run(const TileProduct& tile, const dnnl::stream& stream) {
    Scratch scratch;
    // oneDNN writes through none of the inputs.
    const std::array<void*, 5> addresses = {const_cast<void*>(tile.a.data), const_cast<void*>(tile.b.data), tile.c,
                                            scratch.take<std::byte>(static_cast<int64_t>(scratch_bytes_)),
                                            const_cast<void*>(tile.bias)};
    for (int i = 0; i < count_; ++i) dnnl_memory_set_data_handle(arguments_[i].memory, addresses[i]);
    std::optional<BlockedSignals> blocked;
    if (!keeps_stack_) blocked.emplace();
    const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream.get(), count_, arguments_.data());
    if (status != dnnl_success) throw Error(ErrorKind::runtime, "oneDNN could not run a matrix product");
  }

 private:
  void add(int argument, const memory::desc& description) {
    memories_[count_] = memory(description, engine(), DNNL_MEMORY_NONE);
    arguments_[count_] = {argument, memories_[count_].get()};
    ++count_;
  }

  dnnl::primitive primitive_;
  std::array<memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  int count_ = 0;
  size_t scratch_bytes_ = 0;
  bool keeps_stack_ = true;
};

struct ThreadState {
  dnnl::stream stream{engine()};
  std::unordered_map<Key, TilePrimitive, KeyHash> primitives;

  TilePrimitive& primitive(const Key& key) {
    if (const auto found = primitives.find(key); found != primitives.end()) return found->second;
    if (primitives.size() >= kMaxPrimitives) primitives.clear();
    try {
      return primitives.emplace(key, TilePrimitive(key)).first->second;
    } catch (const dnnl::error& error) {
      fail_onednn("could not make a matrix product", error);
    }
  }
};

/// The state of the running thread. A list that never ends holds those of all threads: a worker that still waits when the program
/// ends frees nothing, and leak checks do not always find what hangs on its own storage alone.
class OwnState {
 public:
  OwnState() {
    const std::lock_guard lock(thread_lists_mutex());
    all().insert(state_.get());
  }
  ~OwnState() {
    const std::lock_guard lock(thread_lists_mutex());
    all().erase(state_.get());
  }
  ThreadState* operator->() const { return state_.get(); }

 private:
  static std::set<ThreadState*>& all() {
    static auto& all = *new std::set<ThreadState*>();
    return all;
  }

  const std::unique_ptr<ThreadState> state_ = std::make_unique<ThreadState>();
};

}  // namespace

bool onednn_takes_bfloat16() { return bf16_arithmetic() != Bf16Arithmetic::widened; }

void onednn_tile(const TileProduct& tile, DType operands, DType result) {
  const SingleThread alone;
  thread_local OwnState state;
  const Key key{tile.m,
                tile.n,
                tile.k,
                tile.a.leading,
                tile.b.leading,
                tile.c_leading,
                operands,
                result,
                tile.a.transposed,
                tile.b.transposed,
                tile.bias != nullptr,
                tile.accumulate};
  state->primitive(key).run(tile, state->stream);
}

}  // namespace deckle::kernels::cpu::matmul
