// What kernels for GPUs ask of the library (error.h), where its devices are fake ones: none of them is ever launched, but they
// are linked, since rows of kernels name them.
#include "deckle/base/check.h"
#include "deckle/core/cuda/error.h"

namespace deckle::cuda {
namespace {

[[noreturn]] void refuse() { fail("a kernel for GPUs is called on a fake device (expected the CPU's, by KernelRow::on)"); }

}  // namespace

void check_call(cudaError_t, const char*) { refuse(); }
void check_runtime(const char*) { refuse(); }
void check_launch(Device) { refuse(); }
cudaStream_t stream_handle(Device) { refuse(); }
IndexFault* index_fault(Device) { refuse(); }
void check_index_fault(Device) { refuse(); }

}  // namespace deckle::cuda
