#include "deckle/base/check.h"
#include "deckle/ops/generated/attention.h"

namespace deckle {

Tensor third_order_of_attention() { fail(ErrorKind::not_implemented, "attention has derivatives up to the second order"); }

}  // namespace deckle
