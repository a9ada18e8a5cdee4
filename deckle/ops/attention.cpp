#include "deckle/ops/generated/attention.h"
#include "deckle/base/check.h"

namespace deckle {

Tensor third_order_of_attention() { fail(ErrorKind::not_implemented, "attention has derivatives up to the second order"); }
std::vector<Tensor> third_orders_of_attention() { return {third_order_of_attention()}; }

}  // namespace deckle
