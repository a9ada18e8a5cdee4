#pragma once

namespace deckle {

/// What a CPU kernel may know of its surroundings. Threads come from parallel_for, scratch memory from the kernel's own
/// thread-local buffers; the struct is where a caller-supplied workspace would go.
struct CpuContext {};

}  // namespace deckle
