#pragma once

#include <span>
#include <vector>

#include "deckle/autograd/node.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

/// Runs the graph from `roots`, whose gradients are `gradients`. Without `captures` the leaves accumulate; with them the
/// gradients that reach these edges are returned (undefined where none does) and only the nodes that lead to them run.
/// Iterative; deterministic accumulation order; re-entrant; one thread, the caller's.
std::vector<Tensor> run_backward(std::span<const Edge> roots, TensorList gradients, std::span<const Edge> captures,
                                 bool retain_graph, bool create_graph);

}  // namespace deckle::autograd
