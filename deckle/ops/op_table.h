#pragma once

#include <span>
#include <string_view>

namespace deckle {

/// What is known of an op when the library is built: generated from its entry, or for a function
/// without one from deckle/by_hand.yaml.
struct OpInfo {
  std::string_view name;
  std::string_view schema;
  std::string_view doc;
  std::string_view position;  // ops/reduce.yaml:41
  std::string_view kernels;
  std::string_view saves;
  std::string_view derivatives;
  std::string_view ragged;
  std::string_view autocast;  // half: self, mat2; empty: it computes in the dtype of its operands
  std::string_view host;      // why it computes on the host, wherever its operands are; empty: it computes there
  std::string_view cpu_only;  // why its kernel is for the CPU alone; empty: it has one for GPUs too, or needs none
  std::string_view over[3];   // what it does over the batch, a ragged and a regular dim of nested tensors; empty: refuses them
  std::string_view variants;  // add_, add_out
  std::string_view header;    // of a function without an entry
  std::string_view because;   // and why it has none; empty: it has one
};

/// All ops of the library, in the order of their entry files.
std::span<const OpInfo> op_table();

}  // namespace deckle
