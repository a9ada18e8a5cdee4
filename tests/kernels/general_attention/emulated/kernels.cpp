// The kernels, compiled as plain C++ by the headers of this folder.
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "deckle/kernels/cuda/general_attention/backward.cu"
#include "deckle/kernels/cuda/general_attention/call.cpp"
#include "deckle/kernels/cuda/general_attention/forward.cu"
#include "deckle/kernels/cuda/general_attention/jvp.cu"
#include "deckle/kernels/cuda/general_attention/lists.cu"
#include "deckle/kernels/cuda/general_attention/mixed.cu"
#include "deckle/kernels/cuda/general_attention/second.cu"
