#pragma once

#include "deckle/attention/attention.h"
#include "deckle/kernels/args/attention_plan.h"

namespace deckle {

/// Decides one call on packed operands q [Tq, H, D], k [Tk, Hk, D], v [Tk, Hk, Dv], whose sequences lie where the ragged
/// shapes say. Throws for combinations that have no meaning.
Plan make_attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& q_rows, const Ragged& k_rows,
                         const AttentionOptions& options);

/// The plan's problem with the operands that `options` has, as the candidates are asked about it on `device`.
AttentionRequest attention_request(const AttentionPlan& plan, const AttentionOptions& options, Device device);

/// Whether kernels can read the rows of a dense bias 16 bytes at a time.
bool bias_is_in_pieces(const Tensor& bias);

/// Copies the ranges and bytes of the plan's mask to the device, if they are not there: what reads them may then be recorded.
void upload_mask(const AttentionPlan& plan, Device device);

/// "cpu" or "cuda", as the candidates name devices.
std::string device_name(Device device);

}  // namespace deckle
